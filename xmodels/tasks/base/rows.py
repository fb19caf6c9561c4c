"""Rows of one or two texts and what is learnt of them: a table, or records that were made of one."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import BadRow
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.row_checks import check_texts
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.framing import pack_columns, pack_texts
from xmodels.tasks.base.read import Data, Survey, print_left_out, tells_cuts
from xmodels.tasks.base.records import check_recorded, recorded_columns
from xmodels.tasks.base.texts import TextReader, warn_shared

SAMPLE = 1000  # rows of a survey whose texts are kept


class RowReader(TextReader):
    """Reads single texts, or pairs. Subclasses say what is learnt of them, such as a label.

    Attributes:
        records: the task of `create_finetuning_data` whose records it reads.
    """

    records: ClassVar[str]

    # What differs between tasks.

    def read_rows(self, path: str, columns: Columns, bad_rows: list[BadRow] | None) -> Sequence[Any]:
        """Returns the rows of a table, which have `texts`. Rows that cannot be used go to `bad_rows`; with None they are errors."""
        raise NotImplementedError

    def label_names(self, path: str, rows: Sequence[Any]) -> list[str]:
        """Returns the labels of a training table in the order of their ids; by default they have no names."""
        return []

    def label_values(self, path: str, rows: Sequence[Any], labels: list[str]) -> np.ndarray:
        """Returns the array `labels`, (N, ...). Raises a DataError that names the row whose label training did not have."""
        raise NotImplementedError

    def derived_arrays(self, path: str, rows: Sequence[Any] | None, labels: list[str]) -> dict[str, np.ndarray]:
        """Returns further arrays that follow from the rows, such as what a teacher says of them; by default none.

        Args:
            rows: None where the file holds records.
        """
        return {}

    def check_training(self, path: str, labels: list[str], num_rows: int) -> None:
        """Raises a UsageError where the labels show that another column is meant."""

    def describe(self, values: np.ndarray, labels: list[str]) -> str:
        """Returns what is said of the array `labels` of the training."""
        return f"{len(labels)} labels"

    # What does not.

    @property
    def columns(self) -> Columns:
        options = self.options
        return Columns(options.text_column, options.text_pair_column, options.label_column)

    def rows_of(self, path: str) -> Sequence[Any]:
        """Returns the rows of a table; says which ones are left out."""
        bad_rows = self.bad_rows()
        rows = self.read_rows(path, self.columns, bad_rows)
        print_left_out(path, bad_rows)
        self.check_pairs(path, len(rows[0].texts))
        return rows

    def survey(self):
        path = self.training_files()
        train = self.rows_of(path)
        labels = self.label_names(path, train)
        self.check_training(path, labels, len(train))

        def count(other: str) -> int:
            rows = self.rows_of(other)
            self.label_values(other, rows, labels)  # says which label is unknown
            check_texts(other, len(rows[0].texts), path, len(train[0].texts))
            warn_shared(other, [row.texts for row in rows], path, [row.texts for row in train])
            return len(rows)

        said = self.describe(self.label_values(path, train, labels), labels)
        summary = [f"{len(train):,} rows to train on, {said}", *self.count_evaluation(count)]
        texts = [text for row in train[:SAMPLE] for text in row.texts]
        return Survey(", ".join(summary), labels, len(train), texts)

    def survey_records(self, tokenizer):
        labels, count = self.check_records(self.records, tokenizer)
        self.check_training(self.options.data_dir, labels, count)
        said = f", {len(labels)} labels" if labels else ""
        return Survey(f"{count:,} examples{said}", labels, count)

    def read(self, tokenizer):
        path = self.training_files()
        source, labels, num_texts = self.source_of(path, tokenizer)
        self.check_training(path, labels, source.num_examples)

        def read(other: str) -> ArraySource:
            found, _, texts_there = self.source_of(other, tokenizer, labels)
            check_texts(other, texts_there, path, num_texts)
            return found

        sets = self.evaluation_sets(source, tokenizer, read)
        return Data(source, sets, labels, num_texts, self.describe(source.arrays["labels"], labels))

    def recorded_set(self, folder, tokenizer, labels):
        return self.source_of(folder, tokenizer, labels)[0]

    @tells_cuts("max_seq_length")
    def source_of(
        self, path: str, tokenizer, labels: list[str] | None = None
    ) -> tuple[ArraySource, list[str], int]:  # fmt: skip
        """Returns a table, or a folder of records, as a source of batches, its labels, and the number of texts in a row.

        Args:
            labels: those of the training; None takes those of the file.
        """
        frame, orders, length = self.reading.frame, self.task_class.orders, self.options.max_seq_length
        if os.path.isdir(path):
            manifest = Manifest.read(path)
            labels = check_recorded(path, manifest, self.records, tokenizer, labels)
            num_texts = manifest.settings.texts_per_record
            self.check_pairs(path, num_texts)
            columns, values = recorded_columns(path, manifest, num_texts)
            derived = self.derived_arrays(path, None, labels)
            arrays = pack_columns(columns, tokenizer.vocabulary, length, frame, orders, coded=True)
        else:
            rows = self.rows_of(path)
            num_texts = len(rows[0].texts)
            labels = labels or self.label_names(path, rows)
            arrays = pack_texts([row.texts for row in rows], tokenizer, length, frame, orders, coded=True)
            values = self.label_values(path, rows, labels)
            derived = self.derived_arrays(path, rows, labels)
        values = values.astype(self.task_class.reads["labels"].dtype)
        return ArraySource({**arrays, "labels": values, **derived}, path, derived), labels, num_texts

    def check_pairs(self, path: str, num_texts: int) -> None:
        """Raises a UsageError where texts are to be read in several orders, but there is one in a row only."""
        if self.task_class.orders and num_texts < 2:
            raise UsageError(
                f"{path}: has one text in a row, but --task={self.name} compares two. Name the column of the second with "
                "--text_pair_column, or take --task=classify."
            )
