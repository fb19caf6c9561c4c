"""Writes the answers of `xmodels predict` to a file, as JSON lines or as a table."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence

from data_pipelines.escaping import for_cell
from data_pipelines.files import whole_file
from xmodels.tasks.base.answer import Predictor
from xmodels.tasks.base.forms import PLAIN_CELL

JSON_LINES = ".jsonl"


class JsonLines:
    """An object a line."""

    header, blank = "", "null\n"

    def __init__(self, predictor: Predictor):
        self.predictor = predictor

    def lines(self, inputs: Sequence, predictions: Sequence) -> Iterator[str]:
        """Yields the lines of some inputs."""
        for pair in zip(inputs, predictions, strict=True):
            yield json.dumps(self.predictor.record(*pair), ensure_ascii=False) + "\n"


class Table:
    """A row of cells a line."""

    def __init__(self, predictor: Predictor, delimiter: str):
        self.predictor, self.delimiter = predictor, delimiter
        self.plain = re.compile(rf"{PLAIN_CELL}({delimiter}{PLAIN_CELL})*")
        columns = list(map(str, predictor.header()))
        self.header, self.blank = self._quoted(columns), self._quoted([""] * len(columns))

    def lines(self, inputs: Sequence, predictions: Sequence) -> Iterator[str]:
        """Yields the lines of some inputs."""
        plain = self.predictor.plain_rows(predictions, self.delimiter)
        if plain is not None:
            yield from plain.splitlines(keepends=True)
            return
        for pair in zip(inputs, predictions, strict=True):
            yield self._line(self.predictor.row(*pair))

    def _line(self, values: list) -> str:
        cells = list(map(str, values))
        line = self.delimiter.join(cells)
        # Most rows are such that `for_cell` and the writer change nothing.
        is_plain = self.plain.fullmatch(line) and line.count(self.delimiter) == len(cells) - 1
        return f"{line}\n" if is_plain else self._quoted(cells)

    def _quoted(self, cells: list[str]) -> str:
        line = io.StringIO()
        csv.writer(line, delimiter=self.delimiter, lineterminator="\n").writerow(map(for_cell, cells))
        return line.getvalue()


def write(path: str, predictor: Predictor, parts: Iterable[tuple[Sequence, Sequence]], has_header: bool = True) -> None:
    """Writes an answer a line, as JSON or as a table; the file is there whole or not at all.

    Args:
        parts: of inputs, None for a blank line, and the predictions of those that are none.
        has_header: of a table: whether it begins with the names of its columns.
    """
    count = blanks = 0
    if path.endswith(JSON_LINES):
        form: JsonLines | Table = JsonLines(predictor)
    else:
        form = Table(predictor, "," if path.lower().endswith(".csv") else "\t")
    with whole_file(path, "w") as file:
        if has_header:
            file.write(form.header)
        for inputs, predictions in parts:
            there = [asked for asked in inputs if asked is not None]
            found = form.lines(there, predictions)
            file.writelines(form.blank if asked is None else next(found) for asked in inputs)
            count, blanks = count + len(inputs), blanks + len(inputs) - len(there)
    print(
        f"{path}: {count - blanks:,} {predictor.answers}"
        + (f", {blanks:,} empty rows for blank lines." if blanks else ".")
    )
