"""Labelled rows before any network sees them: which labels there are, and whether files fit one another."""

from collections.abc import Collection, Hashable, Sequence

import numpy as np

from data_pipelines.corpora.tables import Row
from data_pipelines.errors import DataError, UsageError
from data_pipelines.text.labels import sort_labels

NO_LABEL = ("-", "--", "?", "nan", "null", "n/a", "na", "<na>", "none", "unlabeled", "unlabelled")
MANY_ENOUGH = 6  # rows, from which on a label of the first one alone is odd
FEW_ROWS = 20  # with fewer, many labels are no sign of a wrong column
MUCH_UNKNOWN, MUCH_SHARED = 0.05, 0.1


def label_names(rows: list[Row]) -> list[str]:
    """Returns the different labels, in the order of their ids."""
    return sort_labels(row.label for row in rows)


def label_ids(path: str, rows: list[Row], labels: list[str]) -> np.ndarray:
    """Returns the number of each row's label, int32 (N,).

    Raises:
        DataError: a label that training did not have; names the file, the line and the known labels.
    """
    ids = {name: index for index, name in enumerate(labels)}
    unknown = [row for row in rows if row.label not in ids]
    if unknown:
        row, count = unknown[0], f" So it is in {len(unknown):,} of {len(rows):,} rows." if unknown[1:] else ""
        raise unknown_label(f"{path}, line {row.line}", row.label, labels, count)
    return np.array([ids[row.label] for row in rows], np.int32)


def unknown_label(place: str, label: str | None, labels: Sequence[str], count: str = "") -> DataError:
    """Returns the error of a label that training did not have.

    Args:
        place: file and line.
        labels: the known ones.
        count: a sentence on how many rows have such labels.
    """
    return DataError(
        f"{place}: label {label!r} does not occur in training.{count} Known: {', '.join(labels[:20])}. Correct the row, or add rows "
        "with this label to the training file."
    )


def check_labels(path: str, labels: Sequence[str], num_rows: int, label_column: str | None = None) -> None:
    """Raises an error where the labels of a training file, each of a row, or a word, tell nothing apart (a DataError), or show that
    another column is meant (a UsageError)."""
    if len(labels) < 2:
        raise DataError(
            f"{path}: holds one label only ({labels[0]!r}), so there is nothing to tell apart; is --label_column right? Add "
            "rows of other labels."
        )
    if num_rows >= FEW_ROWS and len(labels) > num_rows / 2:
        column = label_column or "the first of label, labels, class, … in the header"
        raise UsageError(
            f"{path}: {len(labels)} different labels in {num_rows} rows, such as {labels[0]!r:.40}. "
            f"Is the label column ({column}) the right one? Name another with --label_column."
        )


def no_label_warning(labels: Sequence[str]) -> str | None:
    """Returns what to say where a label is one with which data sets mark rows that have none, as SNLI's `-`."""
    found = [label for label in labels if label.lower() in NO_LABEL]
    if "-1" in labels and not {"-1", "1"} >= set(labels) and not {"-1", "0", "1"} >= set(labels):
        found.append("-1")
    if not found:
        return None
    return (
        f"{', '.join(map(repr, found))} looks like 'no label', and is learnt and scored as a class of its own. If it is none, take "
        "these rows out."
    )


def header_warning(labels: Sequence[str], ids: np.ndarray) -> str | None:
    """Returns what to say where the first row of a file without a header has a label that no other row has, while all other labels
    occur again: then it may name the columns.

    Args:
        labels: their names.
        ids: int (N,), the label of each row.
    """
    counts = np.bincount(ids, minlength=len(labels))
    if len(ids) < MANY_ENOUGH or counts[ids[0]] > 1 or np.sum(counts == 1) > 1:
        return None
    return (
        f"the label of the first row, {labels[ids[0]]!r}, occurs in no other row. If that row names the columns, give their names "
        "with --text_column and --label_column, or take it out."
    )


def check_texts(path: str, found: int, trained_on: str, wanted: int) -> None:
    """Raises a DataError where a held-out file has another number of texts in a row than the training file."""
    if found != wanted:
        raise DataError(
            f"{path}: {found} text(s) in a row, but {trained_on} has {wanted}. Name the columns of both with --text_column and "
            "--text_pair_column."
        )


def shared_warning(path: str, rows: Sequence[Hashable], trained_on: str, trained: Collection[Hashable]) -> str | None:
    """Returns what to say where rows of a held-out file stand in the training file too; they tell nothing of new text."""
    known = set(trained)
    share = sum(row in known for row in rows) / max(1, len(rows))
    if share <= MUCH_SHARED:
        return None
    return (
        f"Warning: {share:.0%} of the texts of {path} stand in {trained_on} too, so its scores show what is learnt by heart. "
        "Take them out of one of the files."
    )


def unknown_warning(path: str, unknown: int, tokens: int, do_lower_case: bool | None) -> str | None:
    """Returns what to say where much of the text has no piece in the vocabulary."""
    if unknown <= MUCH_UNKNOWN * tokens:
        return None
    case = "" if do_lower_case is not False else " If the vocabulary has no capital letters, use --do_lower_case=true."
    return (
        f"Warning: {unknown / tokens:.0%} of the tokens of {path} are [UNK], which tell the network nothing. Is the vocabulary "
        f"(or checkpoint) that of this language?{case}"
    )
