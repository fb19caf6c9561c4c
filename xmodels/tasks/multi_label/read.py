"""Rows of one or two texts with any number of labels: side by side in the column of a table, or a list in JSON lines."""

import dataclasses
import os
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.tables import BadRow, Columns, read_table
from data_pipelines.errors import DataError, UsageError
from data_pipelines.finetuning.row_checks import check_texts, shared_warning
from data_pipelines.text.framing import pack_texts
from data_pipelines.text.labels import sort_labels
from xmodels.tasks.base.read import Data, Survey, print_left_out
from xmodels.tasks.base.texts import TextReader, token_rows, warn_unknown
from xmodels.tasks.multi_label.task import SEPARATOR
from xmodels.training.watching.progress import print_status

SAMPLE = 1000  # rows of a survey whose texts are kept


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Texts, the labels that suit them, perhaps none, and the line of the file."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    line: int


def read_rows(path: str, columns: Columns, separator: str, bad_rows: list[BadRow] | None = None) -> list[Labelled]:
    """The rows of a table; an empty label stands for none. A label of JSON lines may be a list, whose items are not parted.

    Args:
        bad_rows: where rows go that cannot be used; None where such a row is an error.

    Raises:
        DataError: a row has an empty text or names a label twice; names file and line.
    """
    found = []
    for row in read_table(path, columns, bad_rows=bad_rows, may_be_empty=True, label_lists=True):
        labels = row.labels
        if labels is None:
            labels = tuple(label.strip() for label in row.label.split(separator) if label.strip())
        fault = None
        if not all(text.strip() for text in row.texts):
            fault = "the text is empty"
        elif len(set(labels)) < len(labels):
            fault = f"a label stands twice in {row.label or list(labels)!r:.40}"
        if fault and bad_rows is None:
            raise DataError(
                f"{path}, line {row.line}: {fault}. Correct it, or leave such rows out with --on_bad_row=skip."
            )
        if fault:
            bad_rows.append(BadRow(f"{path}, line {row.line}", fault))
            continue
        found.append(Labelled(row.texts, labels, row.line))
    if not found:
        raise DataError(f"{path}: holds no row that can be used.")
    return found


def label_rows(path: str, rows: Sequence[Labelled], labels: Sequence[str]) -> np.ndarray:
    """1 for each label that a row has: float32 (N, C). Raises a DataError where training did not have one."""
    places, found = {name: place for place, name in enumerate(labels)}, np.zeros((len(rows), len(labels)), np.float32)
    for number, row in enumerate(rows):
        for label in row.labels:
            if label not in places:
                raise DataError(
                    f"{path}, line {row.line}: label {label!r} does not occur in training. Known: {', '.join(labels[:20])}. "
                    "Correct the row, or add rows with this label to the training file."
                )
            found[number, places[label]] = 1.0
    return found


class Reader(TextReader):
    """Labels of single texts, or of pairs."""

    own_flags: ClassVar[tuple[str, ...]] = ("label_separator", "task_dropout")
    joins = True

    def __init__(self, name, options):
        super().__init__(name, options)
        self.separator = SEPARATOR if options.label_separator is None else options.label_separator

    def rows_of(self, path: str) -> list[Labelled]:
        options, bad_rows = self.options, self.bad_rows()
        columns = Columns(options.text_column, options.text_pair_column, options.label_column)
        rows = read_rows(path, columns, self.separator, bad_rows)
        print_left_out(path, bad_rows)
        return rows

    def files(self) -> tuple[list[Labelled], dict[str, list[Labelled]], list[str]]:
        """The rows of training, those of the sets that are scored, and the labels in the order of their ids."""
        path = self.training_files()
        if self.options.data_dir:
            raise UsageError(
                f"--data_dir: --task={self.name} learns from files, not from records. Name them by --train_file."
            )
        train = self.rows_of(path)
        labels = sort_labels({label for row in train for label in row.labels})
        if not labels:
            raise DataError(f"{path}: no row has a label. Name their column with --label_column.")
        if max(len(row.labels) for row in train) < 2:
            print_status(f"Warning: no row of {path} has several labels; is --label_separator={self.separator} right?")
        others = {name: self.rows_of(other) for name, other in self.evaluation_files()}
        for name, where in self.evaluation_files():
            label_rows(where, others[name], labels)  # says which label is unknown
            check_texts(where, len(others[name][0].texts), path, len(train[0].texts))
        return train, others, labels

    def survey(self):
        train, others, labels = self.files()
        parts = [f"{len(train):,} rows to train on, {self.said(train, labels)}"]
        parts += [f"{len(rows):,} for {name}" for name, rows in others.items()]
        return Survey(", ".join(parts), labels, len(train), [text for row in train[:SAMPLE] for text in row.texts])

    def said(self, rows: list[Labelled], labels: list[str]) -> str:
        return f"{len(labels)} labels, {sum(len(row.labels) for row in rows) / len(rows):.2f} on average"

    def read(self, tokenizer):
        train, others, labels = self.files()
        source = self.source_of(self.options.train_file, train, labels, tokenizer)
        warn_unknown(self.options.train_file, source, tokenizer)
        sets, paths = {}, dict(self.evaluation_files())
        for name, rows in others.items():
            sets[name] = self.source_of(paths[name], rows, labels, tokenizer)
            trained = token_rows(source)
            if warning := shared_warning(paths[name], token_rows(sets[name]), self.options.train_file, trained):
                print_status(warning)
        return Data(source, sets, labels, len(train[0].texts), self.said(train, labels))

    def source_of(self, path: str, rows: list[Labelled], labels: list[str], tokenizer) -> ArraySource:
        arrays = pack_texts([row.texts for row in rows], tokenizer, self.options.max_seq_length, self.reading.frame)
        return ArraySource({**arrays, "labels": label_rows(path, rows, labels)}, os.fspath(path))

    def task(self, config, data):
        return self.task_class(config, data.labels, reading=self.reading, separator=self.separator)
