"""Post-norm and pre-norm Transformers with and without warm-up (Xiong et al., 2020), and learned positions (Vaswani et al., 2017).

    python -m benchmarks.reproductions.transformer_norms --work_dir=work \\
        --train=train.de.gz,train.en.gz --valid=val.de.gz,val.en.gz --test=test.de.gz,test.en.gz

Networks of 6 + 6 layers learn to translate, each row at the rate that is best for it on validation text with the first seed. `--peer`
trains PyTorch's `nn.Transformer` on the batches of the first seed. Finished runs are kept in the work folder, which may be that of
`transformer_multi30k`; `--jobs=2` makes rows side by side.
"""

import json
import os
import statistics
import sys

from benchmarks.measure import table
from benchmarks.reproductions import commands, pages, peer_transformer, translation_runs
from benchmarks.reproductions.transformer_report import entries
from benchmarks.reproductions.translation_runs import nats_of

NAME = "transformer_norms"
BATCH = {"tokens_per_batch": 1024, "length_buckets": "16,24,64"}
DEEP = {"hidden_dim": 64, "num_layers": 6, "num_heads": 4, "intermediate_dim": 256, "max_sequence_length": translation_runs.LENGTH,
        "dropout": 0.1, "attention_dropout": 0.0, "intermediate_dropout": 0.0}  # fmt: skip
# The fourth one is the peak of section 5.3 for this width and 1,000 steps of warm-up. A row begins in the middle, and goes on towards
# either edge for as long as its best rate has no worse neighbour there.
RATES = (6.25e-5, 2.5e-4, 1e-3, 4e-3, 1.6e-2)
FIRST = slice(2, 4)
WARMUP = 1 / 3  # of the steps; then the rate stays
# name -> system, share of the steps that are warm-up, what the configuration changes
ROWS = {
    "post-norm, no warm-up": ("transformer", 0, {}),
    "post-norm, warm-up": ("transformer", WARMUP, {}),
    "pre-norm, no warm-up": ("transformer_pre_norm", 0, {}),
    "pre-norm, warm-up": ("transformer_pre_norm", WARMUP, {}),
    "pre-norm, no warm-up, learned positions": ("transformer_pre_norm", 0, {"position": "learned"}),
}
WITH_PEER = "pre-norm, no warm-up", "pre-norm, warm-up"
MARGIN = 0.1  # nats a token
INTRODUCTION = """On Layer Normalization in the Transformer Architecture (Xiong et al., 2020), and learned positions against
sinusoids (Vaswani et al., 2017, table 3, row E), with the commands of this project, from {source} to {target} (Multi30k: 29,000
captions, German and English). Neither the size nor the steps of the papers; means and sample standard deviations of {num_seeds} seeds.

6 + 6 layers of width 64, {num_steps:,} batches of {tokens:,} tokens a side in bfloat16, at a constant rate that is reached at
once or after a third of the steps: of {rates} the best one of each row by held-out nats of the first seed, where those beyond the
middle two are tried if the best one has no worse neighbour."""
PEER = "PyTorch's rows are its `nn.Transformer` (`norm_first`) in float32 on the batches of the first seed, at the same rates."


def train_row(flags, name: str, vocabulary_size: int) -> dict[float, list[str]]:
    """Rate -> run folders: of all seeds at the rate that is best with the first one, and that one's at the others."""
    system, warmup, changes = ROWS[name]
    plain = name.replace(", ", "_").replace(" ", "_")
    config = f"{flags.work_dir}/{plain}.json"
    with open(config, "w", encoding="utf-8") as file:
        json.dump({"model": system, "config": {"vocabulary_size": vocabulary_size, **DEEP, **changes}}, file)

    def trained(rate: float, seed: int) -> str:
        return translation_runs.train(
            flags.work_dir, f"{plain}_{rate:g}", flags.num_steps, seed, system=system, model_config_file=config,
            learning_rate=rate, num_warmup_steps=round(warmup * flags.num_steps), lr_schedule="constant",
            eval_every=flags.num_steps, save_checkpoints_steps=flags.num_steps, **BATCH,
        )  # fmt: skip

    first, *others = flags.seeds
    tried = commands.bracketed(lambda rate: trained(rate, first), nats_of, RATES, FIRST)
    best = min(tried, key=lambda rate: nats_of(tried[rate]))
    runs = {rate: [run] for rate, run in sorted(tried.items())}
    runs[best] += [trained(best, seed) for seed in others]
    return runs


def best_rates(runs: dict[str, dict[float, list[str]]]) -> dict[str, tuple[list[float], float, str]]:
    """Row -> (held-out nats by seed, rate, run folder of the first seed) of the best rate."""
    found = {}
    for name, tried in runs.items():
        rate = min(tried, key=lambda each, tried=tried: nats_of(tried[each][0]))
        found[name] = [nats_of(run) for run in tried[rate]], rate, tried[rate][0]
    return found


def claims_of(deep: dict) -> dict[str, bool]:
    """What the papers say, and whether it came out on average. The margin was set before any score was seen."""
    nats = {name: statistics.mean(values[0]) for name, values in deep.items()}
    return {
        f"learned positions do as well as sinusoids, within {MARGIN} nats a token": (
            abs(nats["pre-norm, no warm-up, learned positions"] - nats["pre-norm, no warm-up"]) < MARGIN
        ),
        f"without warm-up post-norm is worse than with it, by more than {MARGIN} nats": (
            nats["post-norm, no warm-up"] - nats["post-norm, warm-up"] > MARGIN
        ),
        f"without warm-up pre-norm is no worse than with it, within {MARGIN} nats": (
            nats["pre-norm, no warm-up"] - nats["pre-norm, warm-up"] < MARGIN
        ),
        "without warm-up pre-norm is better than post-norm": nats["pre-norm, no warm-up"] < nats["post-norm, no warm-up"],
    }  # fmt: skip


def draw(deep: dict[str, tuple], figure) -> None:
    """Training loss of the best rate of each row."""
    axes = figure.subplots()
    for name, (_, rate, run) in deep.items():
        points = entries(run, "train")
        axes.plot([p["step"] for p in points], [p["loss"] for p in points], label=f"{name} ({rate:g})", linewidth=1)
    axes.set(xlabel="step", ylabel="training loss (smoothed labels)", title="6 + 6 layers")
    axes.legend(fontsize=6, frameon=False)


def write(runs: dict[str, dict], peers: dict[str, dict[float, float]], flags, introduction: str) -> None:
    """Writes the page and the picture."""
    deep = best_rates(runs)
    rates = sorted({rate for tried in runs.values() for rate in tried})
    rows = [
        [name, *(pages.mean_and_deviation([nats_of(run) for run in tried.get(rate, ())], ".3f") for rate in rates)]
        for name, tried in runs.items()
    ]
    rows += [
        [f"{name}, PyTorch's, one seed", *(f"{tried[rate]:.3f}" if rate in tried else "" for rate in rates)]
        for name, tried in peers.items()
    ]
    parts = [
        introduction,
        pages.verdict(claims_of(deep)),
        "## Held-out nats a token",
        table(["6 + 6 layers", *(f"rate {rate:g}" for rate in rates)], rows),
        *([PEER] if peers else []),
        f"![Training loss]({NAME}.png)",
        f"## How\n\n{pages.environment(translation_runs.command(NAME), flags.seeds)}",
    ]
    pages.write_page(NAME, "The Transformer: norms, warm-up and positions", parts, flags.output_dir)
    pages.write_picture(NAME, lambda figure: draw(deep, figure), 5.0, 3.4, folder=flags.output_dir)


def main() -> None:
    parser = translation_runs.parser_of(__doc__)
    parser.add_argument("--num_steps", type=int, default=900)
    parser.add_argument(
        "--row", action="append", choices=tuple(ROWS), help="train this row only, and write no page; may be repeated"
    )
    parser.add_argument("--peer", action="store_true", help="train PyTorch's pre-norm Transformer on the same batches")
    flags = parser.parse_args()
    size = translation_runs.prepare(flags)
    if flags.jobs > 1 and not flags.row:
        parts = [[*sys.argv[1:], "--jobs=1", "--no_page", f"--row={name}"] for name in ROWS]
        commands.side_by_side(NAME, parts, flags.jobs)
    runs = {name: train_row(flags, name, size) for name in flags.row or ROWS}
    peers = {
        name: {rate: peer_transformer.nats(tried[0]) for rate, tried in runs[name].items()}
        for name in (WITH_PEER if flags.peer else ())
        if name in runs
    }
    if flags.no_page or flags.row:
        return
    source, target = map(os.path.basename, flags.train.split(","))
    numbers = {**vars(flags), "source": source, "target": target, "num_seeds": len(flags.seeds)}
    numbers |= {"tokens": BATCH["tokens_per_batch"], "rates": ", ".join(f"{rate:g}" for rate in RATES)}
    write(runs, peers, flags, INTRODUCTION.format(**numbers))


if __name__ == "__main__":
    main()
