"""How much of the batches of one epoch is padding, counted in what the network would read.

    python -m benchmarks.padding                                        # samples/zh, and the docstrings of this Python
    python -m benchmarks.padding --corpus zh:news.txt.gz --corpus en:book.txt --output=benchmarks/results/padding.md

For every text a vocabulary is trained and records of several packings are made, at `--length` tokens; then one epoch is
formed into batches as it comes, in length buckets, with constantly many tokens, and packed into rows of one, two and four
lengths, by what training uses. Up to 32,768 records are one window, so their shares are exact.
"""

import argparse
import os
import pathlib
import tempfile

import numpy as np

from data_pipelines.batches.grouping import Grouping, Rows, buckets, padding_share, slots
from data_pipelines.batches.token_buckets import token_buckets
from data_pipelines.corpora import docstrings
from data_pipelines.corpora.corpus import open_corpus
from data_pipelines.pretraining.job import Settings, create
from data_pipelines.records.source import SHUFFLE_WINDOW, RecordSource
from data_pipelines.text.sentences import split_english
from data_pipelines.text.train import train_wordpiece

ROOT = pathlib.Path(__file__).parent.parent
PACKINGS = ("segment_pair", "doc_sentences", "sentence_pair")
BATCH = 32


def records_of(path: str, language: str, packing: str, length: int, folder: str) -> RecordSource:
    """Records of a text with a vocabulary of its own."""
    vocabulary = os.path.join(folder, "vocab.txt")
    if not os.path.exists(vocabulary):
        with open(vocabulary, "w", encoding="utf-8") as file:
            file.write(train_wordpiece(open_corpus(path, language), 8000).text())
    output = os.path.join(folder, packing)
    create(
        Settings(
            input_file=path,
            vocab_file=vocabulary,
            language=language,
            max_seq_length=length,
            packing=packing,
            num_shards=2,
        ),
        output,
    )
    return RecordSource(output)


def lengths_of(source: RecordSource) -> np.ndarray:
    """The tokens of the records of the first window, which is all of them where there are no more than it holds."""
    sample = next(source.in_order().map(lambda index, item: item).batch(SHUFFLE_WINDOW).as_numpy_iterator())
    return np.asarray(source.lengths(sample))


def groupings(lengths: np.ndarray, length: int) -> dict[str, Grouping | None]:
    """The ways to form batches."""
    bounds = buckets("auto", lengths, length)
    found = {"as they come": None, "buckets": bounds, "tokens": token_buckets(bounds.lengths, BATCH * length)}
    for times in (1, 2, 4):
        most = max(2, int(np.ceil(2 * times * length / lengths.mean())))
        found[f"rows of {times * length}"] = Rows(times * length, most, slots(times * length, most, 0.15, 20))
    return found


def table(corpora: list[tuple[str, str, str]], length: int) -> str:
    """Rows for (name, language, path)."""
    lines: list[str] = []
    for name, language, path in corpora:
        with tempfile.TemporaryDirectory() as folder:
            for packing in PACKINGS:
                source = records_of(path, language, packing, length, folder)
                lengths = lengths_of(source)
                shares = {
                    how: padding_share(lengths, g, length, BATCH) for how, g in groupings(lengths, length).items()
                }
                if not lines:
                    lines = [
                        f"| text | `--packing` | records | {' | '.join(shares)} |",
                        "| --- " * 3 + "| ---: " * 6 + "|",
                    ]
                cells = " | ".join(f"{share:.1%}" for share in shares.values())
                lines.append(f"| {name} | `{packing}` | {source.num_examples:,} | {cells} |")
    return "\n".join(lines)


def write_docstrings(path: str) -> str:
    with open(path, "w", encoding="utf-8") as file:
        for module in docstrings.collect(400_000):
            sentences = (s for paragraph in module.paragraphs for s in split_english(paragraph))
            file.write("\n".join(sentences) + "\n\n")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--corpus", action="append", default=[], help="LANGUAGE:FILES, besides the two that are always there"
    )
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--output", help="file for the table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = [("samples/zh", "zh", str(ROOT / "samples/zh/corpus.txt"))]
        texts.append(("docstrings of Python", "en", write_docstrings(os.path.join(folder, "docstrings.txt"))))
        for given in options.corpus:
            language, _, path = given.partition(":")
            texts.append((os.path.basename(path), language, path))
        found = table(texts, options.length)
    text = (
        f"# Padding of one epoch, records of {options.length} tokens, {BATCH} rows a batch\n\n"
        "    python -m benchmarks.padding --corpus LANGUAGE:FILES …\n\n"
        "`tokens`: batches of constantly many tokens, as `--tokens_per_batch`; `rows of N`: `--pack_rows --pack_row_length=N`.\n"
        f"The last batches of an epoch, which are filled up, are counted as well.\n\n{found}\n"
    )
    print(text)
    if options.output:
        pathlib.Path(options.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
