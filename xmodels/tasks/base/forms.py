"""The forms of a prediction in `xmodels predict`: printed lines, the row of a table, and a JSON record."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

SHOWN = 10  # labels, the likeliest ones
PLAIN_CELL = r"\w[\w.]*"  # a cell that is written as it is
PROBABILITIES = "probabilities"  # in a table, a column for each label


class Forms:
    """How predictions are printed and written. `record` says what one holds, and `table` which of it a table has.

    Attributes:
        labels: those of the task, without which probabilities have one column.
        table: the keys of `record` that are columns, in order.
        separator: what stands between the values of a list in a cell.
    """

    labels: Sequence[str] = ()
    table: Sequence[str] = ()
    separator = " "

    def name_input(self, asked) -> str:
        """Returns how a printed line names an input."""
        raise NotImplementedError

    def repeat_input(self, asked) -> dict:
        """Returns what a record repeats of an input."""
        return {}

    def record(self, asked, prediction) -> dict:
        """Returns a prediction as a JSON object."""
        raise NotImplementedError

    def header(self) -> list[str]:
        """Returns the names of the columns of a table of predictions."""
        return [column for name in self.table for column in self._columns(name)]

    def _columns(self, name: str) -> Sequence[str]:
        return self.labels if name == PROBABILITIES and self.labels else (name,)

    def row(self, asked, prediction) -> list:
        """Returns the values of these columns for one input; what its record leaves out is empty."""
        record = self.record(asked, prediction)
        return [cell for name in self.table for cell in cells(record.get(name, ""), self.separator)]

    def plain_rows(self, predictions: Sequence, delimiter: str) -> str | None:
        """Returns the rows of many predictions, a line each, all of whose cells are plain; None where rows are made one by one."""
        return None

    def line(self, asked, prediction) -> str:
        """Returns the line that is printed for one input of a file."""
        raise NotImplementedError

    def describe_prediction(self, asked, prediction) -> Iterator[str]:
        """Yields the lines that are printed for --text."""
        raise NotImplementedError


SIX_DIGITS = "%.6f "


class LabelForms(Forms):
    """Those of predictions with `label` and `probabilities`."""

    answers: ClassVar[str] = "labels"
    table: Sequence[str] = ("label", PROBABILITIES)

    def describe_prediction(self, asked, prediction):
        yield f"label: {prediction.label}"
        yield from likeliest(prediction.probabilities)

    def line(self, asked, prediction):
        return f"{prediction.label}\t{prediction.probabilities[prediction.label]:.4f}\t{self.name_input(asked)}"

    def record(self, asked, prediction):
        return {**self.repeat_input(asked), **vars(prediction)}

    def row(self, asked, prediction):
        if self.table is LabelForms.table:  # in half of the time
            numbers = tuple(prediction.probabilities.values())
            return [prediction.label, *(SIX_DIGITS * len(numbers) % numbers).split()]
        values = vars(prediction)  # most tables need no more, and a record would repeat the input for each row
        try:
            return [cell for name in self.table for cell in cells(values[name], self.separator)]
        except KeyError:
            return super().row(asked, prediction)


class NumberForms(Forms):
    """Those of predictions that are plain floats."""

    answers: ClassVar[str] = "numbers"
    table: Sequence[str] = ("score",)

    def describe_prediction(self, asked, prediction):
        yield f"score: {prediction:.4f}"

    def line(self, asked, prediction):
        return f"{prediction:.4f}\t{self.name_input(asked)}"

    def record(self, asked, prediction):
        return {**self.repeat_input(asked), "score": prediction}


def cells(value: Any, separator: str) -> list[str]:
    """Returns the cells of a value: one, or one for each label of {label: number}."""
    if isinstance(value, dict):
        return [f"{each:.6f}" if type(each) is float else cell(each) for each in value.values()]
    if isinstance(value, list):
        return [separator.join(map(cell, value))]
    return [cell(value)]


def cell(value: Any) -> str:
    """Returns a value as a table has it: numbers with six digits, a truth as 1 or 0."""
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def likeliest(probabilities: dict[str, float]) -> Iterator[str]:
    """Yields a line for each of the `SHOWN` likeliest labels."""
    for name, value in sorted(probabilities.items(), key=lambda item: -item[1])[:SHOWN]:
        yield f"  {value:.4f}  {name}"
