"""Reads labelled tables: TSV, CSV or JSON lines, with one or two columns of text, named or by position."""

import csv
import dataclasses
import gzip
import itertools
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator

from data_pipelines.errors import DataError, UsageError

TEXT_NAMES = ("text", "sentence", "text_a", "sentence1", "premise", "question", "content")
PAIR_NAMES = ("text_pair", "text_b", "sentence2", "hypothesis")
LABEL_NAMES = ("label", "labels", "class", "category", "gold_label")
FLAGS = ("--text_column", "--text_pair_column", "--label_column")
_LONGEST_FIELD = 1_000_000


@dataclasses.dataclass(frozen=True)
class Row:
    """One labelled example; `label` is None where the table has no such column."""

    texts: tuple[str, ...]
    label: str | None
    line: int


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns to read: names, or positions counted from 0 (then the file has no header line)."""

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None

    @property
    def by_position(self) -> bool:
        given = [name for name in (self.text, self.text_pair, self.label) if name is not None]
        return bool(given) and all(name.isdigit() for name in given)


def read_table(path: str, columns: Columns, with_labels: bool = True) -> list[Row]:
    """All rows of a table. The ending of the name tells its kind: .tsv, .csv, .jsonl (or .json), also with .gz.

    Raises:
        DataError: a missing or empty file, invalid UTF-8, a row without a column; names the file and the line.
        UsageError: the kind is unknown, or the columns cannot be found.
    """
    if not os.path.isfile(path):
        raise DataError(f"{path}: no such file. Check the path.")
    if columns.by_position and columns.text is None:
        raise UsageError("--label_column is a position; give --text_column as one too, such as --text_column=0.")
    if columns.by_position:
        positions = [c and int(c) for c in (columns.text, columns.text_pair, columns.label)]
        _check_different(positions, range(1 + max(p or 0 for p in positions)), path)
    kind = os.path.splitext(path.removesuffix(".gz"))[1].lower()
    readers = {
        ".tsv": _read_separated,
        ".txt": _read_separated,
        ".csv": _read_separated,
        ".jsonl": _read_json,
        ".json": _read_json,
    }
    if kind not in readers:
        raise UsageError(f"{path}: unknown kind of table {kind or '(no ending)'!r}. Known: .tsv, .csv, .jsonl.")
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8-sig", newline="") as file:
            rows = list(readers[kind](file, path, "," if kind == ".csv" else "\t", columns, with_labels))
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not valid UTF-8 (byte 0x{error.object[error.start]:02x}). Convert it with iconv."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from None
    if not rows:
        raise DataError(f"{path}: holds no rows.")
    return rows


def _read_separated(file, path: str, delimiter: str, columns: Columns, with_labels: bool) -> Iterator[Row]:
    yield from separated_rows(file, delimiter, columns, with_labels, path, lambda number: f"{path}, line {number}")


def separated_rows(
    lines: Iterable[str],
    delimiter: str,
    columns: Columns,
    with_labels: bool,
    path: str,
    place: Callable[[int], str],
    longest_field: int = _LONGEST_FIELD,
    strict: bool = False,
) -> Iterator[Row]:
    """The rows of TSV (without quotes) or CSV; the first line names the columns unless they are chosen by position.

    Args:
        place: gives file and line for messages, from the number of lines read so far.
        strict: a quote that is not closed is an error, and so is text behind a closing one.
    """
    csv.field_size_limit(longest_field)
    quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=strict)
    try:
        header = None
        for fields in reader:
            if not fields:
                continue
            if header is None and not columns.by_position:
                header = fields
                wanted = _find(header, columns, with_labels, path)
                continue
            if columns.by_position:
                header = fields
                wanted = [
                    c and int(c) for c in (columns.text, columns.text_pair, columns.label if with_labels else None)
                ]
            elif len(fields) > len(header):
                raise DataError(
                    f"{place(reader.line_num)}: {len(fields)} columns, the first line names {len(header)}; is there "
                    "a stray separator in the text?"
                )
            if max(i for i in wanted if i is not None) >= len(fields):
                raise DataError(
                    f"{place(reader.line_num)}: {len(fields)} column(s), expected at least "
                    f"{max(i for i in wanted if i is not None) + 1}."
                )
            text, pair, label = (None if i is None else fields[i] for i in wanted)
            yield Row(
                (text,) if pair is None else (text, pair), None if label is None else label.strip(), reader.line_num
            )
    except csv.Error as error:
        raise DataError(f"{place(reader.line_num)}: {error}.") from None


def _read_json(file, path: str, delimiter: str, columns: Columns, with_labels: bool) -> Iterator[Row]:
    names = None
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}: not JSON ({error.msg}, column {error.colno}).") from None
        if not isinstance(value, dict):
            raise DataError(f"{path}, line {number}: expected a JSON object with fields, found {type(value).__name__}.")
        names = names or [
            list(value)[i] if i is not None else None for i in _find(list(value), columns, with_labels, path)
        ]
        missing = [name for name in names if name is not None and name not in value]
        if missing:
            raise DataError(f"{path}, line {number}: no field {missing[0]!r}. Found: {', '.join(value)}.")
        text, pair, label = (None if name is None else str(value[name]) for name in names)
        yield Row((text,) if pair is None else (text, pair), label, number)


def _find(header: list[str], columns: Columns, with_labels: bool, path: str) -> list[int | None]:
    """The positions of text, second text and label among the names of a header."""

    def position(given: str | None, usual: tuple[str, ...], flag: str, needed: bool) -> int | None:
        names = [given] if given is not None else [name for name in usual if name in header]
        if names and names[0] in header:
            return header.index(names[0])
        if needed or given is not None:
            _check_separator(header, path)
            raise UsageError(
                f"{path}: no column {given or ' or '.join(usual)!r}. The first line has: {', '.join(header)[:200]}. "
                f"Name the column with {flag}, or give positions counted from 0 for a file without a header line, "
                "such as --text_column=0 --label_column=1."
            )
        return None

    text = position(columns.text, TEXT_NAMES, "--text_column", True)
    pair = position(columns.text_pair, PAIR_NAMES, "--text_pair_column", False)
    label = position(columns.label, LABEL_NAMES, "--label_column", True) if with_labels else None
    _check_different([text, pair, label], header, path)
    return [text, pair, label]


def _check_separator(header: list[str], path: str) -> None:
    """Raises a UsageError where the only name of a header looks like several, parted otherwise than the ending says."""
    for separator, name, ending in ((",", "commas", ".csv"), ("\t", "tabs", ".tsv"), (";", "semicolons", ".tsv")):
        if len(header) == 1 and separator in header[0]:
            how = "part its columns by tabs and name it" if separator == ";" else "rename it to"
            raise UsageError(
                f"{path}: its columns are parted by {name} ({header[0]:.60}), which its ending does not say; {how} *{ending}."
            )


def _check_different(positions: list[int | None], names, path: str) -> None:
    """Raises a UsageError where one column would be read as two things."""
    flags = [(p, flag) for p, flag in zip(positions, FLAGS, strict=True) if p is not None]
    for (first, flag), (second, other) in itertools.combinations(flags, 2):
        if first == second:
            raise UsageError(
                f"{path}: {flag} and {other} are the same column ({names[first]}). Name another with {other}."
            )
