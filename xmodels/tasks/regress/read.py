"""Rows of one or two texts with a number: a table, or records made of one."""

import math
import os

import numpy as np

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import BadRow, read_table
from data_pipelines.errors import DataError
from data_pipelines.finetuning.row_checks import check_texts, shared_warning
from data_pipelines.records.manifest import Manifest
from data_pipelines.text.framing import pack_columns, pack_texts
from xmodels.tasks.base.read import Data, Survey, print_left_out, tells_cuts
from xmodels.tasks.base.records import check_recorded, recorded_columns
from xmodels.tasks.base.texts import TextReader, token_rows, warn_unknown
from xmodels.training.watching.progress import print_status

TASK = "regress"  # of the records
SAMPLE = 1000  # rows of a survey whose texts are kept
Rows = tuple[list[tuple[str, ...]], list[float]]


def read_numbers(path: str, columns: Columns, bad_rows: list[BadRow] | None = None) -> Rows:
    """Returns the texts of all rows of a table, and their numbers.

    Args:
        bad_rows: where rows go that cannot be used; None where such a row is an error.

    Raises:
        DataError: a label is no number; names file and line.
    """
    texts, numbers = [], []
    for row in read_table(path, columns, bad_rows=bad_rows):
        number = as_number(row.label)
        if number is None and bad_rows is None:
            raise DataError(
                f"{path}, line {row.line}: no number: {row.label!r:.40}. Correct it, name another column with --label_column, "
                "or leave such rows out with --on_bad_row=skip."
            )
        if number is None:
            bad_rows.append(BadRow(f"{path}, line {row.line}", f"no number: {row.label!r:.40}"))
            continue
        texts.append(row.texts)
        numbers.append(number)
    if not texts:
        raise DataError(f"{path}: holds no row with a number. Name the column of the numbers with --label_column.")
    return texts, numbers


def as_number(text: str) -> float | None:
    """Returns a finite number; None where it is something else."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class Reader(TextReader):
    """Numbers of single texts, or of pairs."""

    def rows_of(self, path: str) -> Rows:
        """Returns the rows of a table; says which ones are left out."""
        options, bad_rows = self.options, self.bad_rows()
        columns = Columns(options.text_column, options.text_pair_column, options.label_column)
        found = read_numbers(path, columns, bad_rows)
        print_left_out(path, bad_rows)
        return found

    def survey(self):
        path = self.training_files()
        texts, numbers = self.rows_of(path)
        summary = [f"{len(texts):,} rows to train on, {spread(numbers)}"]
        for name, other in self.evaluation_files():
            if not os.path.isdir(other):
                rows, _ = self.rows_of(other)
                check_texts(other, len(rows[0]), path, len(texts[0]))
                summary.append(f"{len(rows):,} for {name}")
        return Survey(", ".join(summary), [], len(texts), [text for row in texts[:SAMPLE] for text in row])

    def survey_records(self, tokenizer):
        _, count = self.check_records(TASK, tokenizer)
        return Survey(f"{count:,} examples", [], count)

    def read(self, tokenizer):
        path = self.training_files()
        source, num_texts = self._source(path, tokenizer)
        warn_unknown(path, source, tokenizer)
        evaluation_sets = {}
        for name, other in self.evaluation_files():
            found, texts_there = self._source(other, tokenizer)
            check_texts(other, texts_there, path, num_texts)
            if warning := shared_warning(other, token_rows(found), path, token_rows(source)):
                print_status(warning)
            evaluation_sets[name] = found
        return Data(source, evaluation_sets, [], num_texts, spread(source.arrays["labels"]))

    def recorded_set(self, folder, tokenizer, labels):
        return self._source(folder, tokenizer)[0]

    @tells_cuts("max_seq_length")
    def _source(self, path: str, tokenizer) -> tuple[ArraySource, int]:
        length, frame = self.options.max_seq_length, self.reading.frame
        if os.path.isdir(path):
            return self._recorded(path, tokenizer)
        texts, numbers = self.rows_of(path)
        arrays = pack_texts(texts, tokenizer, length, frame)
        return ArraySource({**arrays, "labels": np.array(numbers, np.float32)}, path), len(texts[0])

    def _recorded(self, path: str, tokenizer) -> tuple[ArraySource, int]:
        """Records of `create_finetuning_data --task=regress`, as `_source` gives the table they were made of."""
        manifest = Manifest.read(path)
        check_recorded(path, manifest, TASK, tokenizer, None)
        num_texts = manifest.settings.texts_per_record
        columns, numbers = recorded_columns(path, manifest, num_texts)
        arrays = pack_columns(columns, tokenizer.vocabulary, self.options.max_seq_length, self.reading.frame)
        return ArraySource({**arrays, "labels": numbers.astype(np.float32)}, path), num_texts


def spread(numbers) -> str:
    """Returns what is said of the numbers of a set."""
    numbers = np.asarray(numbers, np.float64)
    return f"numbers from {numbers.min():.4g} to {numbers.max():.4g}, {numbers.mean():.4g} on average"
