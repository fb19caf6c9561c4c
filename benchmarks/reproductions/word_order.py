"""Can a network tell a sentence from one whose neighbouring words have changed places? (Wang et al., 2020, ICLR: words as waves)

    python -m benchmarks.reproductions.word_order --text=captions.txt --test_text=other.txt --folder=work

Half of the sentences are as they were written; in the others some neighbours have changed places. Both have the same words, so a sum
of words without order must guess. The first seed chooses the rate of each network on development sentences; the test sentences choose
nothing. Widths give complex and real networks about as many weights. Interrupted, the same command goes on.
"""

import argparse
import json
import os
import random
import statistics
from collections.abc import Sequence

from benchmarks.measure import table
from benchmarks.reproductions.commands import fine_tuned, run, tuned
from benchmarks.reproductions.pages import (
    RESULTS,
    environment,
    mean_and_deviation,
    take_further_flags,
    verdict,
    write_page,
)
from benchmarks.reproductions.shared_inputs import text_of, write_table
from data_pipelines.corpora.tables import Row
from data_pipelines.files import whole_file, write_json
from data_pipelines.finetuning.linear import bag_of_words, majority

BATCH, LONGEST, SHORTEST = 32, 24, 6  # words of a sentence
WIDTH = 64  # complex numbers of a word; a real word has twice as many
WRITTEN, CHANGED = "as written", "changed"
WITHOUT, WAVES = "sum of complex words without order", "sum of waves"
# Name -> system, its settings. Widths give networks over real and over complex words about as many weights.
ARMS: dict[str, tuple[str, dict]] = {
    WITHOUT: ("complex_fasttext", {"hidden_dim": WIDTH, "frequency_sharing": "zero", "learned_phase": True}),
    WAVES: ("complex_fasttext", {"hidden_dim": WIDTH}),
    "sum of waves, one frequency a word": ("complex_fasttext", {"hidden_dim": WIDTH, "frequency_sharing": "word"}),
    "sum of waves, one frequency a dimension": ("complex_fasttext", {"hidden_dim": WIDTH, "frequency_sharing": "dimension"}),
    "CNN": ("text_cnn", {"hidden_dim": 96, "embedding_dim": 2 * WIDTH, "dropout": 0.1}),
    "CNN over waves": ("complex_text_cnn", {"hidden_dim": 96, "embedding_dim": WIDTH, "dropout": 0.1}),
    "LSTM": ("bilstm", {"hidden_dim": 128, "num_layers": 1, "embedding_dim": 2 * WIDTH, "dropout": 0.1}),
    "LSTM over waves": ("complex_lstm", {"hidden_dim": 128, "embedding_dim": WIDTH, "dropout": 0.1}),
}  # fmt: skip


def main(arguments=None) -> None:
    options = parsed(arguments)
    os.makedirs(options.folder, exist_ok=True)
    wanted = {"train": options.rows, "dev": options.dev_rows, "test": options.test_rows}
    learnt = sentences(options.text, wanted["train"] + wanted["dev"])
    parts = {
        "train": learnt[: wanted["train"]],
        "dev": learnt[wanted["train"] :],
        "test": sentences(options.test_text, wanted["test"], known=set(learnt)),
    }
    rows = {part: probe(each, options.share) for part, each in parts.items()}
    files = {part: write_table(os.path.join(options.folder, f"{part}.tsv"), each) for part, each in rows.items()}
    words = vocabulary(options, parts["train"])
    found = {name: arm(options, files, words, name) for name in ARMS}
    write_report(options, rows, found)


def sentences(path: str, count: int, known: set[str] = frozenset()) -> list[str]:
    """The first sentences of a file, a line each, that are neither short nor long and not among those that are known."""
    kept = dict.fromkeys(
        " ".join(line.split()) for line in text_of(path).splitlines() if SHORTEST <= len(line.split()) <= LONGEST
    )
    found = [sentence for sentence in kept if sentence not in known]
    if len(found) < count:
        raise SystemExit(f"{path}: {len(found):,} sentences of {SHORTEST} to {LONGEST} words, {count:,} are needed.")
    return found[:count]


def probe(given: Sequence[str], share: float) -> list[Row]:
    """Half of the sentences as they are, and half with neighbours that have changed places, which are told from them."""
    draw = random.Random(0)
    return [
        Row((exchanged(sentence, share, draw),), CHANGED, line) if line % 2 else Row((sentence,), WRITTEN, line)
        for line, sentence in enumerate(given)
    ]


def exchanged(sentence: str, share: float, draw: random.Random) -> str:
    """The sentence with a share of its pairs of neighbours exchanged, one at least; the last word stays, with its full stop."""
    words = sentence.split()
    pairs = range(0, len(words) - 2, 2)
    for first in draw.sample(pairs, max(1, round(share * len(pairs)))):
        words[first : first + 2] = words[first + 1], words[first]
    return " ".join(words)


def vocabulary(options, texts: Sequence[str]) -> str:
    """The file of the words of the sentences that are learnt from."""
    path = os.path.join(options.folder, "words.txt")
    if not os.path.exists(path):
        source = os.path.join(options.folder, "texts.txt")
        with whole_file(source, "w") as file:
            file.writelines(f"{text}\n" for text in texts)
        run("train_vocabulary", input_file=source, tokenizer="words", vocab_size=8000, output_file=path)
    return path


def arm(options, files: dict[str, str], words: str, name: str) -> tuple[str, list[float], int]:
    """The rate of a network, which the first seed chose, its accuracies on the test sentences, and the number of its weights."""
    system, settings = ARMS[name]
    label = "-".join(name.replace(",", "").split())
    sizes = os.path.join(options.folder, f"{label}.json")
    write_json(sizes, settings)

    def folder(rate: str, seed: int) -> str:
        return os.path.join(options.folder, "runs", f"{label}-{rate}-{seed}")

    def scored(rate: str, seed: int) -> dict[str, float]:
        return fine_tuned(
            folder(rate, seed), *options.more, task="classify", init_checkpoint=f"new:{system}", model_config_file=sizes,
            vocab_file=words, train_file=files["train"], eval_file=files["dev"], test_file=files["test"], learning_rate=rate,
            seed=seed, num_train_epochs=options.epochs, train_batch_size=BATCH, max_seq_length=LONGEST + 8,
        )  # fmt: skip

    rate, found = tuned(scored, options.rates, options.seeds, "evaluation accuracy")
    return rate, [each["test accuracy"] for each in found], weights_of(folder(rate, options.seeds[0]))


def claims_of(means: dict[str, float], chance: float) -> dict[str, bool]:
    """What the paper says of order -> whether it came out here."""
    return {
        "a sum of complex words without order must guess": abs(means[WITHOUT] - chance) < 3,
        "a sum of waves is right in more than 60 % of the sentences": means[WAVES] > 60,
        "waves make the CNN no worse": means["CNN over waves"] >= means["CNN"] - 0.5,
        "waves make the LSTM no worse": means["LSTM over waves"] >= means["LSTM"] - 0.5,
    }


def weights_of(folder: str) -> int:
    """The number of weights of the network of a fine-tuning, without those of its head."""
    from xmodels.models.folder import model_class

    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        stored = json.load(file)
    network = model_class(stored["model"])
    return network(network.config_class.from_json(stored["config"])).initialize().count_params()


def write_report(options, rows: dict[str, list[Row]], found) -> None:
    truth = [row.label for row in rows["test"]]
    chance = 100 * majority([row.label for row in rows["train"]], truth)
    words = 100 * bag_of_words(rows["train"], rows["test"]).accuracy
    means = {name: 100 * statistics.mean(values) for name, (_, values, _) in found.items()}
    lines = [["commonest answer", f"{chance:.1f}", "", ""], ["bag of words and pairs (TF-IDF)", f"{words:.1f}", "", ""]]
    lines += [
        [name, mean_and_deviation(values, scale=100), rate, f"{weights:,}"]
        for name, (rate, values, weights) in found.items()
    ]
    parts = [
        verdict(claims_of(means, chance)),
        table(["network", "right, %", "rate", "weights"], lines),
        f"{len(rows['train']):,} sentences to learn from, {len(rows['dev']):,} that choose rate and epoch, {len(truth):,} that are "
        f"scored, of {SHORTEST} to {LONGEST} words; every second one has {options.share:.0%} of its pairs of neighbours exchanged. "
        f"{options.epochs:g} epochs of batches of {BATCH}{''.join(f', `{flag}`' for flag in options.more)}; rates by the first seed "
        f"of {', '.join(options.rates)}. A complex word has {WIDTH} amplitudes and frequencies, a real one {2 * WIDTH} numbers.",
        environment("python -m benchmarks.reproductions.from_shared_data word_order_en --work_dir=work", options.seeds),
    ]
    print(write_page("word_order_en", "Who notices that words have changed places", parts, folder=options.results))


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("text", "test_text", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--dev_rows", type=int, default=1000)
    parser.add_argument("--test_rows", type=int, default=900)
    parser.add_argument("--share", type=float, default=0.5, help="of the pairs of neighbours that are exchanged")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rates", nargs="+", default=["1e-3", "3e-3", "1e-2"])
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--results", default=RESULTS, help="where the page goes")
    take_further_flags(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
