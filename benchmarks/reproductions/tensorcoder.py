"""Attention between the dimensions of heads beside attention between tokens, and beside none (Zhang et al., 2020).

    python -m benchmarks.reproductions.tensorcoder --text=news.txt --heldout=other.txt --folder=work

Networks of one size learn masked words of the same records in as many steps: TensorCoder, the Transformer, and one in which tokens see
themselves alone. A further arm sees two neighbours. All of it is done with the numbers of RoBERTa and again with those of small
networks, by which a million weights come to use what stands around a word. The first seed chooses each rate on held-out records, whose
loss is what the page reports; the abstract of the paper says that TensorCoder is the better language model. Interrupted, the same
command goes on.
"""

import argparse
import dataclasses
import math
import os
import statistics

from benchmarks.measure import table
from benchmarks.reproductions.commands import is_finished, make_records, results_of, run, tuned
from benchmarks.reproductions.pages import RESULTS, environment, mean_and_deviation, verdict, write_page

NAME, LENGTH, BATCH, VOCABULARY = "tensorcoder", 128, 16, 4000
SIZES = "num_layers=2,num_heads=4,hidden_dim=128,intermediate_dim=512"
TENSOR, FULL, NONE, NEAR = "TensorCoder", "Transformer", "no mixing", "two neighbours"
ARMS = {
    TENSOR: ("tensorcoder", ""),
    FULL: ("multi_head", ""),
    NEAR: ("local_window", "mixer.window=1"),
    NONE: ("local_chunks", "mixer.chunk_size=1,mixer.chunks_before=0,mixer.chunks_after=0"),
}
LOSS = "loss"  # that of masked words, the only objective
MARGIN = 0.15  # of the perplexity
Found = dict[str, tuple[str, list[float]]]  # an arm -> its rate and its nats by seed


@dataclasses.dataclass(frozen=True)
class Setting:
    """How networks learn.

    Attributes:
        recipe: of `pretrain`.
        rates: that are tried.
        num_steps: of each training.
    """

    recipe: str
    rates: tuple[str, ...]
    num_steps: int


SETTINGS = {
    "Published numbers": Setting("published", ("3e-4", "1e-3", "4e-3"), 800),
    "Numbers of small networks": Setting("small", ("2e-3", "4e-3"), 1200),
}


def main() -> None:
    flags = parsed()
    os.makedirs(flags.folder, exist_ok=True)
    prepare(flags)
    write_report(
        flags, {title: {name: arm(flags, setting, name) for name in ARMS} for title, setting in SETTINGS.items()}
    )


def prepare(flags) -> None:
    """Vocabulary and records, unless they are there."""
    words = os.path.join(flags.folder, "vocab.txt")
    if not os.path.exists(words):
        run("train_vocabulary", input_file=flags.text, vocab_size=VOCABULARY, output_file=words)
    for part, text in (("train", flags.text), ("heldout", flags.heldout)):
        make_records(
            os.path.join(flags.folder, part), input_file=text, vocab_file=words, packing="full_sentences", max_seq_length=LENGTH
        )  # fmt: skip


def arm(flags, setting: Setting, name: str) -> tuple[str, list[float]]:
    """The rate of a network, which the first seed chose, and its held-out nats of a masked word by seed."""
    mixer, numbers = ARMS[name]

    def scored(rate: str, seed: int) -> dict[str, float]:
        folder = os.path.join(flags.folder, setting.recipe, f"{name.replace(' ', '_')}-{rate}-{seed}")
        if not is_finished(folder):
            run(
                "pretrain", system="roberta_wwm", recipe=setting.recipe, mixer=mixer, set=",".join(filter(None, (SIZES, numbers))),
                model_dir=folder, seed=seed, data_dir=os.path.join(flags.folder, "train"),
                eval_data_dir=os.path.join(flags.folder, "heldout"), num_train_steps=setting.num_steps, train_batch_size=BATCH,
                learning_rate=rate, eval_every=setting.num_steps, log_steps=100, save_checkpoints_steps=setting.num_steps,
            )  # fmt: skip
        return results_of(folder)

    rate, found = tuned(scored, list(setting.rates), flags.seeds, LOSS, lowest=True)
    print(f"{setting.recipe}, {name}: {rate}, {[each[LOSS] for each in found]}", flush=True)
    return rate, [each[LOSS] for each in found]


def claims_of(nats: dict[str, float]) -> dict[str, bool]:
    """What the paper says, or what its words must mean -> whether it came out here."""
    return {
        "TensorCoder has a lower perplexity than the Transformer": nats[TENSOR] < nats[FULL],
        f"its perplexity is within {MARGIN:.0%} of the Transformer's": abs(nats[TENSOR] - nats[FULL]) < math.log(1 + MARGIN),
        f"without mixing the perplexity is more than {MARGIN:.0%} above TensorCoder's": (
            nats[NONE] - nats[TENSOR] > math.log(1 + MARGIN)
        ),
        "TensorCoder is better than two neighbours": nats[TENSOR] < nats[NEAR],
    }  # fmt: skip


def write_report(flags, found: dict[str, Found]) -> None:
    claims, parts = {}, []
    for title, setting in SETTINGS.items():
        means = {name: statistics.mean(nats) for name, (_, nats) in found[title].items()}
        claims |= {f"{title.lower()}: {claim}": came for claim, came in claims_of(means).items()}
        rows = [
            [name, mean_and_deviation([math.exp(x) for x in nats]), mean_and_deviation(nats, ".3f"), rate]
            for name, (rate, nats) in found[title].items()
        ]
        parts += [
            f"## {title}\n\n`--recipe={setting.recipe}`, {setting.num_steps:,} steps, rates of {', '.join(setting.rates)}.",
            table(["network", "held-out perplexity of masked words", "nats", "rate"], rows),
        ]
    parts = [
        f"Networks with `{SIZES}`, steps of {BATCH} texts of {LENGTH} pieces of words, a vocabulary of {VOCABULARY:,}, masks of "
        "`roberta_wwm`. All have equally many weights. The text: news, books, encyclopedia, captions and dialogues in English. "
        + flags.about,
        verdict(claims),
        *parts,
        environment("python -m benchmarks.reproductions.from_shared_data tensorcoder_en --work_dir=work", flags.seeds),
    ]  # fmt: skip
    print(
        write_page(f"{NAME}_en", "Attention between dimensions, between tokens, and none", parts, folder=flags.results)
    )


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("text", "heldout", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--about", default="", help="a remark for the page")
    parser.add_argument("--results", default=RESULTS, help="where the page goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
