"""Attention Is All You Need, and the pre-norm variant, on a small corpus: German to English captions (Multi30k).

    python -m benchmarks.reproductions.transformer_multi30k --work_dir=work \\
        --train=train.de.gz,train.en.gz --valid=val.de.gz,val.en.gz --test=test.de.gz,test.en.gz

Any two languages do: each flag names a file of sentences and one of their translations, line by line. What is shown: that the
command line leads from two files to a BLEU; what beam search and averaged checkpoints add (sections 5.4 and 6.1), each with the
length penalty that is best for it on validation sentences; that learned positions do as well as sinusoids (table 3, row E);
and what happens without warm-up to post-norm and to pre-norm (Xiong et al., 2020), each at the rate that is best for it on
validation text with the first seed. Finished parts are kept in the work folder, so the same command goes on after an interruption;
`--jobs=2` makes the two tables side by side.
"""

import argparse
import json
import os
import sys

from benchmarks.reproductions import commands, pages, peer_transformer, transformer_report
from data_pipelines.text.kinds import open_tokenizer

LENGTH = 64
PRECISION = {"mixed_precision": "bfloat16"}
MAIN = {"tokens_per_batch": 2048, "length_buckets": "16,20,24,32,64"} | PRECISION
BRIEF = {"tokens_per_batch": 1024, "length_buckets": "16,24,64"} | PRECISION
DEEP = {"hidden_dim": 64, "num_layers": 6, "num_heads": 4, "intermediate_dim": 256, "max_sequence_length": LENGTH,
        "dropout": 0.1, "attention_dropout": 0.0, "intermediate_dropout": 0.0}  # fmt: skip
# The third one is the peak of section 5.3 for this width and 1,000 steps of warm-up. A row begins in the middle, and goes on towards
# either edge for as long as its best rate has no worse neighbour there.
RATES = (2.5e-4, 1e-3, 4e-3, 1.6e-2)
FIRST = slice(1, 3)
WARMUP = 1 / 3  # of the steps; then the rate stays
# name -> system, share of the steps that are warm-up, what the configuration changes
ROWS = {
    "post-norm, no warm-up": ("transformer", 0, {}),
    "post-norm, warm-up": ("transformer", WARMUP, {}),
    "pre-norm, no warm-up": ("transformer_pre_norm", 0, {}),
    "pre-norm, warm-up": ("transformer_pre_norm", WARMUP, {}),
    "pre-norm, no warm-up, learned positions": ("transformer_pre_norm", 0, {"position": "learned"}),
}


def prepare(args, folder: str) -> int:
    """Joint vocabulary and records; returns the size of the vocabulary."""
    if not os.path.exists(f"{folder}/vocabulary"):
        commands.run(
            "train_vocabulary", input_file=args.train, input_format="documents", tokenizer="sentencepiece",
            vocab_size=args.vocab_size, output_file=f"{folder}/vocabulary",
        )  # fmt: skip
    for part in ("train", "valid"):
        source, target = getattr(args, part).split(",")
        commands.make_records(
            f"{folder}/{part}", input_file=source, target_file=target, vocab_file=f"{folder}/vocabulary",
            packing="parallel", max_seq_length=LENGTH,
        )  # fmt: skip
    return len(open_tokenizer(f"{folder}/vocabulary").vocabulary)


def train(folder: str, name: str, steps: int, seed: int, **flags) -> str:
    """A run on the records, unless it is finished."""
    path = f"{folder}/{name}_{seed}"
    if not commands.is_finished(path):
        commands.run(
            "pretrain", data_dir=f"{folder}/train", eval_data_dir=f"{folder}/valid", model_dir=path, num_train_steps=steps,
            log_steps=20, seed=seed, **flags,
        )  # fmt: skip
    return path


def train_main(args, folder: str, seed: int) -> str:
    return train(
        folder, "main", args.num_steps, seed, system="transformer", size="tiny", learning_rate=2e-3,
        num_warmup_steps=args.num_steps // 5, save_checkpoints_steps=max(1, args.num_steps // 20),
        keep_checkpoint_max=transformer_report.AVERAGED, eval_every=max(1, args.num_steps // 4), **MAIN,
    )  # fmt: skip


def train_deep(args, folder: str, vocabulary_size: int) -> dict[str, dict[float, list[str]]]:
    """Row -> rate -> run folders: of all seeds at the rate that is best with the first one, and that one's at the others."""
    runs: dict[str, dict[float, list[str]]] = {}
    for name, (system, warmup, changes) in ROWS.items():
        plain = name.replace(", ", "_").replace(" ", "_")
        config = f"{folder}/{plain}.json"
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"model": system, "config": {"vocabulary_size": vocabulary_size, **DEEP, **changes}}, file)

        def trained(rate: float, seed: int, plain=plain, system=system, config=config, warmup=warmup) -> str:
            return train(
                folder, f"{plain}_{rate:g}", args.num_deep_steps, seed, system=system, model_config_file=config,
                learning_rate=rate, num_warmup_steps=round(warmup * args.num_deep_steps), lr_schedule="constant",
                eval_every=args.num_deep_steps, save_checkpoints_steps=args.num_deep_steps, **BRIEF,
            )  # fmt: skip

        first, *others = args.seeds
        tried = commands.bracketed(lambda rate: trained(rate, first), transformer_report.nats_of, RATES, FIRST)  # noqa: B023
        best = min(tried, key=lambda rate, tried=tried: transformer_report.nats_of(tried[rate]))
        runs[name] = {rate: [run] for rate, run in sorted(tried.items())}
        runs[name][best] += [trained(best, seed) for seed in others]
    return runs


def peer_rows(runs: dict[str, dict[float, list[str]]]) -> dict[str, dict[float, float]]:
    """Row -> rate -> held-out nats of PyTorch's network on the batches of the first seed: what the question of warm-up wants."""
    return {
        name: {rate: peer_transformer.nats(tried[0]) for rate, tried in runs[name].items()}
        for name in ("pre-norm, no warm-up", "pre-norm, warm-up")
    }


INTRODUCTION = """Attention Is All You Need (Vaswani et al., 2017) and On Layer Normalization in the Transformer Architecture
(Xiong et al., 2020), with the commands of this project, from {source} to {target} (Multi30k: 29,000 captions, German and
English). Neither the size nor the steps of the papers; means and sample standard deviations of {num_seeds} seeds.

The main run is `--system=transformer --size=tiny` (2 + 2 layers, width 128), {num_steps:,} batches of {tokens:,} tokens a side, a
joint SentencePiece vocabulary of {vocab_size:,}, rate 2e-3 after a fifth of the steps as warm-up, then as in the paper. The
deep rows have 6 + 6 layers of width 64 and {num_deep_steps:,} batches of {brief:,}, at a constant rate that is reached at once or
after a third of the steps: of {rates} the best one of each row by held-out nats of the first seed, where those beyond the
middle two are tried if the best one has no worse neighbour. Networks of ours compute in bfloat16 while they are trained and in
the nats of the deep rows; the main runs translate in float32. A network that names tokens by their frequency alone has
{frequency:.1f} held-out nats a token."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for part in ("train", "valid", "test"):
        parser.add_argument(f"--{part}", required=True, metavar="SOURCE,TARGET")
    parser.add_argument("--work_dir", required=True)
    parser.add_argument("--vocab_size", type=int, default=4000)
    parser.add_argument("--num_steps", type=int, default=2000)
    parser.add_argument("--num_deep_steps", type=int, default=900)
    parser.add_argument("--validation_rows", type=int, default=300, help="that choose the length penalty")
    parser.add_argument(
        "--only", nargs="+", choices=["main", "deep"], default=["main", "deep"], help="of the page's parts"
    )
    parser.add_argument("--jobs", type=int, default=1, help="parts side by side")
    parser.add_argument("--peer", action="store_true", help="train PyTorch's pre-norm Transformer on the same batches")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--output_dir", default=pages.RESULTS, help="For the page and the picture.")
    args = parser.parse_args()
    os.makedirs(args.work_dir, exist_ok=True)
    size = prepare(args, args.work_dir)
    if args.jobs > 1 and len(args.only) > 1:
        parts = [[*sys.argv[1:], "--jobs=1", "--only", part] for part in args.only]
        commands.side_by_side("transformer_multi30k", parts, args.jobs)
    if "main" in args.only:
        mains = [train_main(args, args.work_dir, seed) for seed in args.seeds]
        scores = [transformer_report.score_main(run, args, args.work_dir) for run in mains]
    if "deep" in args.only:
        runs = train_deep(args, args.work_dir, size)
        peers = peer_rows(runs) if args.peer else {}
    if len(args.only) == 2:
        source, target = map(os.path.basename, args.train.split(","))
        numbers = {"tokens": MAIN["tokens_per_batch"], "brief": BRIEF["tokens_per_batch"]}
        numbers |= {
            "rates": ", ".join(f"{rate:g}" for rate in RATES),
            **vars(args),
            "source": source,
            "target": target,
            "num_seeds": len(args.seeds),
            "frequency": transformer_report.nats_by_frequency(mains[0], args.work_dir),
        }
        transformer_report.write(mains[0], scores, runs, peers, args, INTRODUCTION.format(**numbers))


if __name__ == "__main__":
    main()
