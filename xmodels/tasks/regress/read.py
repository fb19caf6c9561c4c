"""Rows of one or two texts with a number: a table, or records made of one."""

import dataclasses
import math

import numpy as np

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import BadRow, read_table
from data_pipelines.errors import DataError
from xmodels.tasks.base.read import drop_unusable
from xmodels.tasks.base.teaching import TaughtReader
from xmodels.tasks.regress.distillation import DistilledRegress


@dataclasses.dataclass(frozen=True)
class Numbered:
    """Texts with a number, which is None where the file has something else, `label`."""

    texts: tuple[str, ...]
    number: float | None
    label: str
    place: str


def read_numbers(path: str, columns: Columns, bad_rows: list[BadRow] | None = None) -> list[Numbered]:
    """Returns the rows of a table.

    Args:
        bad_rows: where rows go that cannot be used; None where such a row is an error.

    Raises:
        DataError: a label is no number; names file and line.
    """
    rows = read_table(path, columns, bad_rows=bad_rows)
    numbered = [Numbered(row.texts, as_number(row.label), row.label, f"{path}, line {row.line}") for row in rows]
    found = drop_unusable(
        numbered, bad_rows, lambda row: f"no number: {row.label!r:.40}" if row.number is None else None
    )
    if not found:
        raise DataError(f"{path}: holds no row with a number. Name the column of the numbers with --label_column.")
    return found


def as_number(text: str) -> float | None:
    """Returns a finite number; None where it is something else."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class Reader(TaughtReader):
    """Numbers of single texts, or of pairs."""

    records = "regress"
    distilled_class = DistilledRegress

    def task(self, config, data):
        start = float(np.mean(data.source.arrays["labels"]))
        if not self.learns_answers:
            return self.task_class(config, data.labels, self.reading, start)
        return self.distilled_class(config, data.labels, self.reading, start, share=self.options.distill_share)

    def arrays_of_teacher(self, answers, labels):
        return {"teacher_scores": np.array(answers, "float32")}

    def read_rows(self, path, columns, bad_rows):
        return read_numbers(path, columns, bad_rows)

    def label_values(self, path, rows, labels):
        return np.array([row.number for row in rows], np.float32)

    def describe(self, values, labels):
        return spread(values)


def spread(numbers) -> str:
    """Returns what is said of the numbers of a set."""
    numbers = np.asarray(numbers, np.float64)
    return f"numbers from {numbers.min():.4g} to {numbers.max():.4g}, {numbers.mean():.4g} on average"
