"""The texts of a file, one by one, in memory that does not grow with the file: lines of plain text, or a column of a table."""

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from tqdm.auto import tqdm

from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.lines import LONGEST_LINE
from data_pipelines.corpora.tables import iterate_table
from data_pipelines.corpora.text_files import open_text
from data_pipelines.errors import DataError

TABLES = (".tsv", ".csv", ".jsonl", ".json")
WINDOW = 64  # batches whose texts are in memory at once, sorted by length


def texts_of(path: str, column: str | None = None) -> Iterator[str]:
    """Yields a text for each line, or row of a table. A blank line is an empty text, so that rows stay the lines of the file.

    Args:
        column: of a table: its name, or its position from 0 in a file without header.

    Raises:
        DataError: there is no such file, it is empty, or a line is longer than a text; names file and line.
    """
    count = 0
    if kind_of(path) in TABLES:
        for count, row in enumerate(iterate_table(path, Columns(column), with_labels=False), 1):  # noqa: B007
            yield row.texts[0]
    else:
        with open_text(path) as file:
            while line := file.readline(LONGEST_LINE + 1):
                count += 1
                if len(line) > LONGEST_LINE:
                    raise DataError(
                        f"{path}, line {count}: more than {LONGEST_LINE:,} characters without a line break."
                    )
                yield line.strip()
    if not count:
        raise DataError(f"{path}: holds no text.")


def encode_in_windows(
    texts: Iterator[str], encode: Callable[[Sequence[str]], np.ndarray], batch_size: int, title: str = "texts"
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yields texts and their vectors, in their order, a window at a time.

    Args:
        encode: texts -> float32 (N, D).
    """
    with tqdm(desc=title, unit="text", mininterval=1) as progress:
        while window := list(itertools.islice(texts, WINDOW * batch_size)):
            yield window, encode(window)
            progress.update(len(window))
