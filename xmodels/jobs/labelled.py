"""Labelled tables as arrays for a network."""

import numpy as np

from data_pipelines.corpora.tables import Columns, Row, read_table
from data_pipelines.dataset import ArraySource
from data_pipelines.errors import DataError
from data_pipelines.text.framing import pack_texts
from data_pipelines.text.wordpiece import WordPieceTokenizer

BATCH = ("token_ids", "segment_ids", "padding_mask", "labels", "example_weights")


def label_names(rows: list[Row]) -> list[str]:
    """The different labels, in order: by number where all are numbers, else by letter."""
    names = {row.label for row in rows}
    return sorted(names, key=lambda name: (int(name), name)) if all(n.isdigit() for n in names) else sorted(names)


def label_ids(path: str, rows: list[Row], labels: list[str]) -> np.ndarray:
    """The number of each row's label, int32 (N,).

    Raises:
        DataError: a label that training did not have; names the file, the line and the known labels.
    """
    ids = {name: index for index, name in enumerate(labels)}
    for row in rows:
        if row.label not in ids:
            raise DataError(
                f"{path}, line {row.line}: label {row.label!r} does not occur in training. Known: {', '.join(labels[:20])}."
            )
    return np.array([ids[row.label] for row in rows], np.int32)


def labelled_source(
    path: str,
    columns: Columns,
    tokenizer: WordPieceTokenizer,
    max_sequence_length: int,
    labels: list[str] | None = None,
) -> tuple[ArraySource, list[str], int]:
    """A table as a source of batches, its labels, and the number of texts in a row.

    Args:
        labels: the known ones; None takes those of the table.
    """
    rows = read_table(path, columns)
    labels = labels or label_names(rows)
    arrays = pack_texts([row.texts for row in rows], tokenizer, max_sequence_length)
    return ArraySource({**arrays, "labels": label_ids(path, rows, labels)}, path), labels, len(rows[0].texts)
