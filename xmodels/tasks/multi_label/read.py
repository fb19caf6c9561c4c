"""Rows of one or two texts with any number of labels: side by side in the column of a table, a list in JSON lines, or records."""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import BadRow, read_table
from data_pipelines.errors import DataError
from data_pipelines.finetuning.class_weights import label_weights
from data_pipelines.finetuning.row_checks import check_texts, shared_warning
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.framing import pack_columns, pack_texts
from data_pipelines.text.labels import SEPARATOR, repeated_label, sort_labels, split_labels
from xmodels.tasks.base.read import Data, Survey, print_left_out, tells_cuts
from xmodels.tasks.base.records import check_recorded, recorded_columns
from xmodels.tasks.base.texts import TextReader, token_rows, warn_unknown
from xmodels.training.watching.progress import print_status

TASK = "multi_label"  # of the records
SAMPLE = 1000  # rows of a survey whose texts are kept


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Texts, the labels that suit them, perhaps none, and the line of the file."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    line: int


def read_rows(path: str, columns: Columns, separator: str, bad_rows: list[BadRow] | None = None) -> list[Labelled]:
    """Returns the rows of a table; an empty label stands for none. A label of JSON lines may be a list, whose items are not
    parted.

    Args:
        bad_rows: where rows go that cannot be used; None where such a row is an error.

    Raises:
        DataError: a row has an empty text or names a label twice; names file and line.
    """
    found = []
    for row in read_table(path, columns, bad_rows=bad_rows, may_be_empty=True, label_lists=True):
        labels = row.labels
        if labels is None:
            labels = split_labels(row.label, separator)
        empty = not all(text.strip() for text in row.texts)
        fault = "the text is empty" if empty else repeated_label(labels, row.label)
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
    """Returns 1 for each label that a row has: float32 (N, C). Raises a DataError where training did not have one."""
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


def summary(labels: np.ndarray) -> str:
    """Returns what to say of labels (N, C)."""
    return f"{labels.shape[1]} labels, {labels.sum() / len(labels):.2f} on average"


class Reader(TextReader):
    """Labels of single texts, or of pairs."""

    def rows_of(self, path: str) -> list[Labelled]:
        options, bad_rows = self.options, self.bad_rows()
        columns = Columns(options.text_column, options.text_pair_column, options.label_column)
        rows = read_rows(path, columns, self.separator, bad_rows)
        print_left_out(path, bad_rows)
        return rows

    def survey(self):
        path = self.training_files()
        train = self.rows_of(path)
        labels = self.labels_in(path, train)
        parts = [f"{len(train):,} rows to train on, {summary(label_rows(path, train, labels))}"]
        for name, other in self.evaluation_files():
            if os.path.isdir(other):
                continue
            rows = self.rows_of(other)
            label_rows(other, rows, labels)  # says which label is unknown
            check_texts(other, len(rows[0].texts), path, len(train[0].texts))
            parts.append(f"{len(rows):,} for {name}")
        return Survey(", ".join(parts), labels, len(train), [text for row in train[:SAMPLE] for text in row.texts])

    def survey_records(self, tokenizer):
        labels, count = self.check_records(TASK, tokenizer)
        return Survey(f"{count:,} examples, {len(labels)} labels", labels, count)

    def recorded_set(self, folder, tokenizer, labels):
        return self.examples(folder, tokenizer, labels)[0]

    def labels_in(self, path: str, rows: Sequence[Labelled]) -> list[str]:
        """Returns the labels of a training table in the order of their ids."""
        labels = sort_labels({label for row in rows for label in row.labels})
        if not labels:
            raise DataError(f"{path}: no row has a label. Name their column with --label_column.")
        if max(len(row.labels) for row in rows) < 2:
            print_status(f"Warning: no row of {path} has several labels; is --label_separator={self.separator} right?")
        return labels

    def read(self, tokenizer):
        path = self.training_files()
        source, labels, num_texts = self.examples(path, tokenizer)
        warn_unknown(path, source, tokenizer)
        sets = {}
        for name, other in self.evaluation_files():
            found, _, texts_there = self.examples(other, tokenizer, labels)
            check_texts(other, texts_there, path, num_texts)
            if warning := shared_warning(other, token_rows(found), path, token_rows(source)):
                print_status(warning)
            sets[name] = found
        return Data(source, sets, labels, num_texts, summary(source.arrays["labels"]))

    @tells_cuts("max_seq_length")
    def examples(self, path: str, tokenizer, labels: list[str] | None = None) -> tuple[ArraySource, list[str], int]:
        """Returns a table, or a folder of records, as a source of batches, its labels, and the number of texts in a row.

        Args:
            labels: those of the training; None takes those of the file.
        """
        if os.path.isdir(path):
            return self.recorded(path, tokenizer, labels)
        rows = self.rows_of(path)
        labels = labels or self.labels_in(path, rows)
        arrays = pack_texts([row.texts for row in rows], tokenizer, self.options.max_seq_length, self.reading.frame)
        return ArraySource({**arrays, "labels": label_rows(path, rows, labels)}, path), labels, len(rows[0].texts)

    def recorded(self, folder: str, tokenizer, labels: list[str] | None) -> tuple[ArraySource, list[str], int]:
        """Records of `create_finetuning_data --task=multi_label` as `examples` gives the table they were made of."""
        manifest = Manifest.read(folder)
        names = check_recorded(folder, manifest, TASK, tokenizer, labels)
        num_texts, wanted = manifest.settings.texts_per_record, self.options.max_seq_length
        columns, found = recorded_columns(folder, manifest, num_texts)
        arrays = pack_columns(columns, tokenizer.vocabulary, wanted, self.reading.frame)
        return ArraySource({**arrays, "labels": found.astype(np.float32)}, folder), names, num_texts

    @property
    def separator(self) -> str:
        """What stands between labels: of records as they were made, unless the flag says otherwise."""
        given, records = self.options.label_separator, self.options.data_dir
        if given is None and records:
            given = Manifest.read(records).settings.others.get("label_separator")
        return SEPARATOR if given is None else given

    def task(self, config, data):
        given, rows = self.options.class_weights, data.source.arrays["labels"]
        weights = given and [tuple(pair) for pair in label_weights(given, data.labels, rows)]
        return self.task_class(config, data.labels, self.reading, weights, separator=self.separator)
