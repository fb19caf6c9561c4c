"""Attention between the dimensions of heads beside attention between tokens, and beside none (Zhang et al., 2020).

    python -m benchmarks.reproductions.tensorcoder --text=news.txt --heldout=other.txt --folder=work

Networks of one size learn the same text in as many steps, by masked words and again by next words: TensorCoder, the Transformer, and
one in which tokens see themselves alone. A further arm sees the words beside a word, or the one before it. The first seed chooses
each rate on held-out records, whose loss is what the page reports; the abstract of the paper says that TensorCoder is the better
language model. Interrupted, the same command goes on.
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
TENSOR, FULL, NONE, NEAR = "TensorCoder", "Transformer", "no mixing", "neighbours"
ARMS = {
    TENSOR: ("tensorcoder", ""),
    FULL: ("multi_head", ""),
    NEAR: ("local_window", "mixer.window=1"),
    NONE: ("local_chunks", "mixer.chunk_size=1,mixer.chunks_before=0,mixer.chunks_after=0"),
}
LOSS = "loss"  # of either objective, which is the only one of its network
MARGIN = 0.15  # of the perplexity
Found = dict[str, tuple[str, list[float]]]  # an arm -> its rate and its nats by seed


@dataclasses.dataclass(frozen=True)
class Setting:
    """What networks learn.

    Attributes:
        words: which ones they tell.
        system, packing: of the networks and of their records.
        rates: that are tried.
        num_steps: of each training.
    """

    words: str
    system: str
    packing: str
    rates: tuple[str, ...]
    num_steps: int


SETTINGS = {
    "masked": Setting("masked words", "roberta_wwm", "full_sentences", ("3e-4", "1e-3", "4e-3"), 800),
    "causal": Setting("next words", "gpt2", "stream", ("1e-3", "4e-3"), 500),
}


def main() -> None:
    flags = parsed()
    found = {}
    for kind, setting in SETTINGS.items():
        folder = os.path.join(flags.folder, kind)
        os.makedirs(folder, exist_ok=True)
        prepare(flags, setting, folder)
        found[kind] = {name: arm(setting, folder, flags.seeds, name) for name in ARMS}
    write_report(flags, found)


def prepare(flags, setting: Setting, folder: str) -> None:
    """Vocabulary and records, unless they are there."""
    words = os.path.join(flags.folder, "vocab.txt")
    if not os.path.exists(words):
        run("train_vocabulary", input_file=flags.text, vocab_size=VOCABULARY, output_file=words)
    for part, text in (("train", flags.text), ("heldout", flags.heldout)):
        make_records(
            os.path.join(folder, part), input_file=text, vocab_file=words, packing=setting.packing, max_seq_length=LENGTH
        )  # fmt: skip


def arm(setting: Setting, parent: str, seeds: list[int], name: str) -> tuple[str, list[float]]:
    """The rate of a network, which the first seed chose, and its held-out nats of a word by seed."""
    mixer, numbers = ARMS[name]

    def scored(rate: str, seed: int) -> dict[str, float]:
        folder = os.path.join(parent, f"{name.replace(' ', '_')}-{rate}-{seed}")
        if not is_finished(folder):
            steps = setting.num_steps
            run(
                "pretrain", system=setting.system, mixer=mixer, set=",".join(filter(None, (SIZES, numbers))), model_dir=folder,
                seed=seed, data_dir=os.path.join(parent, "train"), eval_data_dir=os.path.join(parent, "heldout"),
                num_train_steps=steps, train_batch_size=BATCH, learning_rate=rate, eval_every=steps, log_steps=100,
                save_checkpoints_steps=steps,
            )  # fmt: skip
        return results_of(folder)

    rate, found = tuned(scored, list(setting.rates), seeds, LOSS, lowest=True)
    print(f"{setting.words}, {name}: {rate}, {[each[LOSS] for each in found]}", flush=True)
    return rate, [each[LOSS] for each in found]


def claims_of(nats: dict[str, float]) -> dict[str, bool]:
    """What the paper says, or what its words must mean -> whether it came out here."""
    return {
        "TensorCoder has a lower perplexity than the Transformer": nats[TENSOR] < nats[FULL],
        f"its perplexity is within {MARGIN:.0%} of the Transformer's": abs(nats[TENSOR] - nats[FULL]) < math.log(1 + MARGIN),
        f"without mixing the perplexity is more than {MARGIN:.0%} above TensorCoder's": (
            nats[NONE] - nats[TENSOR] > math.log(1 + MARGIN)
        ),
        "TensorCoder is better than neighbours alone": nats[TENSOR] < nats[NEAR],
    }  # fmt: skip


def write_report(flags, found: dict[str, Found]) -> None:
    claims, parts = {}, []
    for kind, setting in SETTINGS.items():
        means = {name: statistics.mean(nats) for name, (_, nats) in found[kind].items()}
        claims |= {f"{setting.words}: {claim}": came for claim, came in claims_of(means).items()}
        rows = [
            [name, mean_and_deviation([math.exp(x) for x in nats]), mean_and_deviation(nats, ".3f"), rate]
            for name, (rate, nats) in found[kind].items()
        ]
        parts += [
            f"## {setting.words.capitalize()}\n\nThe numbers of `{setting.system}`, {setting.num_steps:,} steps, rates of "
            f"{', '.join(setting.rates)}.",
            table(["network", f"held-out perplexity of {setting.words}", "nats", "rate"], rows),
        ]
    parts = [
        f"Networks with `{SIZES}`, steps of {BATCH} texts of {LENGTH} pieces of words, a vocabulary of {VOCABULARY:,}. All have "
        "equally many weights. The text: news, books, encyclopedia, captions and dialogues in English. " + flags.about,
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
