"""How much of a test set stands in the corpus: shared runs of 8 words (Radford et al., 2019, section 4).

The 8-grams of the corpus go into a Bloom filter, and those of the test set are looked up. When the filter is full it
is asked and emptied, so memory does not grow with the corpus; over all fillings, an 8-gram that does not occur in the
corpus is taken for one that does with a chance of at most 1e-8, as in the paper.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from rbloom import Bloom

from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.corpus import Corpus, read_documents
from data_pipelines.corpora.files import expand
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.reading import Monitor
from data_pipelines.corpora.tables import TABLES, read_table
from data_pipelines.corpora.text_files import read_lines
from data_pipelines.errors import DataError
from data_pipelines.text.units import units

SIZE = 8
FALSE_POSITIVES = 1e-8
CAPACITY = 1 << 25  # 8-grams held at a time; about 180 MB


def grams(text: str) -> list[str]:
    """Returns the runs of 8 units of a text, joined by blanks; none where it has fewer."""
    found = units(text)
    return [" ".join(found[i : i + SIZE]) for i in range(len(found) - SIZE + 1)]


@dataclasses.dataclass
class TestFile:
    """A test file and what was found of it.

    Attributes:
        examples: the texts.
        grams: for each text its 8-grams.
        found: for each text bool (8-grams,), True where the corpus holds it.
    """

    __test__ = False  # no class of tests

    path: str
    examples: list[str]
    grams: list[list[str]]
    found: list[np.ndarray]

    @classmethod
    def read(cls, path: str, columns: Columns) -> "TestFile":
        """Reads a table (.tsv, .csv, .json, .jsonl, also compressed), or text with one example a line."""
        if kind_of(path) in TABLES:
            examples = ["\n".join(row.texts) for row in read_table(path, columns, with_labels=False)]
        else:
            examples = [line.strip() for _, line in read_lines(path)]
        if not examples:
            raise DataError(f"--contamination={path}: holds no text.")
        found = [grams(example) for example in examples]
        return cls(path, examples, found, [np.zeros(len(g), bool) for g in found])

    def look_up(self, filled: Bloom) -> None:
        for known, candidates in zip(self.found, self.grams, strict=True):
            known |= np.fromiter((gram in filled for gram in candidates), bool, len(candidates))

    @property
    def shares(self) -> np.ndarray:
        """float (examples,): the share of each example's 8-grams that the corpus holds; NaN where it has none."""
        return np.array([found.mean() if len(found) else math.nan for found in self.found])

    @property
    def overlap(self) -> float:
        """The share of all 8-grams of the file that the corpus holds; NaN where it has none."""
        everything = np.concatenate(self.found)
        return float(everything.mean()) if len(everything) else math.nan


def compare(
    documents: Iterable[Sequence[str]], num_bytes: int, files: list[TestFile], capacity: int = CAPACITY
) -> None:
    """Marks in `files` the 8-grams that stand in the documents.

    Args:
        documents: lists of sentences.
        num_bytes: the size of the corpus; it bounds the number of 8-grams, and so that of fillings.
    """
    capacity = max(1, min(capacity, num_bytes))
    # Blocks are halves, so a filling that ends once it holds `capacity` fits.
    filled = Bloom(capacity + capacity // 2 + 1, FALSE_POSITIVES / (1 + num_bytes // capacity))
    inside, step = 0, max(1, capacity // 2)
    for sentences in documents:
        found = grams("\n".join(sentences))
        for start in range(0, len(found), step):
            block = found[start : start + step]
            filled.update(block)
            inside += len(block)
            if inside >= capacity:
                _ask(filled, files)
                inside = 0
    _ask(filled, files)


def _ask(filled: Bloom, files: list[TestFile]) -> None:
    for file in files:
        file.look_up(filled)
    filled.clear()


def check(
    patterns: str, corpus: Corpus, columns: Columns, progress: Callable[[int], None] = lambda num_bytes: None
) -> list[TestFile]:
    """Compares test files with a corpus.

    Args:
        patterns: comma-separated names or globs of test files.
        columns: the columns of text where they are tables.
    """
    files = [TestFile.read(path, columns) for path in expand(patterns, "--contamination")]
    documents = (document.sentences for document in read_documents(corpus.whole(), Monitor(progress)))
    compare(documents, corpus.num_bytes, files)
    return files


def report(files: list[TestFile], num_examples: int) -> str:
    """Returns the overlap of each file and its most contaminated examples, as text."""
    lines = []
    for file in files:
        shares = file.shares
        short = int(np.isnan(shares).sum())
        if short == len(shares):
            lines.append(f"{file.path}: no example has {SIZE} words (in Chinese: characters), so none can be told.")
            continue
        some, most = int((shares > 0).sum()), int((shares >= 0.8).sum())
        lines.append(
            f"{file.path}: {file.overlap:.2%} of its {sum(map(len, file.grams)):,} runs of {SIZE} words stand in the "
            f"corpus · {len(shares):,} examples: {some:,} share a run, {most:,} share 80 % or more, {short:,} are too "
            "short to tell"
        )
        worst = sorted(range(len(shares)), key=lambda i: (-np.nan_to_num(shares[i]), i))[:num_examples]
        for index in worst:
            if shares[index] > 0:
                text = " ".join(file.examples[index].split())
                lines.append(
                    f"  {shares[index]:4.0%}  example {index + 1}: {text[:100]}{'…' if len(text) > 100 else ''}"
                )
    return "\n".join(lines)
