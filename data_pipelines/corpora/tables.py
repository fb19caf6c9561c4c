"""Reads labelled tables: TSV, CSV or JSON lines, with one or two columns of text, named or by position; and fastText's lines."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator

from data_pipelines import strict_json
from data_pipelines.corpora import labelled_lines
from data_pipelines.corpora.compression import kind_of
from data_pipelines.corpora.delimited import LONGEST_FIELD, raise_refusal, records
from data_pipelines.corpora.delimiters import delimiter_of
from data_pipelines.corpora.headers import FLAGS, Columns, check_different, check_no_header, find_columns
from data_pipelines.corpora.text_files import check_exists, open_text
from data_pipelines.errors import DataError, UsageError

TABLES = (".tsv", ".csv", ".jsonl", ".ndjson", ".json")  # endings of files that are told to be tables
NAMED = 5  # bad rows that a message names


@dataclasses.dataclass(frozen=True)
class Row:
    """One labelled example; `label` is None where the table has no such column, or where JSON lines have a list, which is `labels`."""

    texts: tuple[str, ...]
    label: str | None
    line: int
    labels: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class BadRow:
    """A row that cannot be used: file and line, and what was found there."""

    place: str
    found: str

    def __str__(self) -> str:
        return f"{self.place}: {self.found}"


def read_table(
    path: str,
    columns: Columns,
    with_labels: bool | None = True,
    bad_rows: list[BadRow] | None = None,
    may_be_empty: bool = False,
    label_lists: bool = False,
) -> list[Row]:
    """Returns all rows of a table. The ending of the name tells its kind: .tsv, .csv, .jsonl (or .json), also compressed; a file of
    `labelled_lines.KINDS` may hold lines of fastText instead.

    Args:
        with_labels: whether there is a label to each row; None where only the table says it.
        bad_rows: rows that cannot be used are left out, and appended here. By default they are errors.
        may_be_empty: whether a row with a label can be used if that, or a text, is empty.
        label_lists: whether the label of JSON lines may be a list of labels.

    Raises:
        DataError: a missing or empty file, text in another encoding, a row that cannot be used; names the file and the line.
        UsageError: the kind is unknown, or the columns cannot be found.
    """
    bad = [] if bad_rows is None else bad_rows
    rows = list(iterate_table(path, columns, with_labels, bad, may_be_empty, label_lists))
    if bad and bad_rows is None:
        raise _refusal(bad, len(rows))
    if not rows:
        raise DataError(f"{path}: holds no rows{f' that can be used: {bad_rows[0]}' if bad_rows else ''}.")
    return rows


def iterate_table(
    path: str, columns: Columns, with_labels: bool | None = True, bad_rows: list[BadRow] | None = None,
    may_be_empty: bool = False, label_lists: bool = False,
) -> Iterator[Row]:  # fmt: skip
    """Works as `read_table`, row by row, in memory that does not grow with the table; a table without rows gives none."""
    check_exists(path)
    if columns.by_position and columns.text is None:
        raise UsageError("--label_column is a position; give --text_column as one too, such as --text_column=0.")
    if columns.by_position:
        positions = [c and int(c) for c in (columns.text, columns.text_pair, columns.label)]
        check_different(positions, range(1 + max(p or 0 for p in positions)), path)
    kind = kind_of(path)
    readers = dict.fromkeys((".tsv", ".csv"), _separated) | dict.fromkeys((".jsonl", ".ndjson", ".json"), _json)
    readers |= dict.fromkeys(labelled_lines.KINDS, _lines)
    if kind not in readers:
        raise UsageError(
            f"{path}: unknown kind of table {kind or '(no ending)'!r}. Known: .tsv, .csv, .jsonl; .txt of lines that begin with "
            f"{labelled_lines.PREFIX}."
        )
    with open_text(path) as file:
        table = _Table(path, columns, with_labels, bad_rows, may_be_empty, label_lists)
        yield from (row for row in readers[kind](table, file, kind) if table.accepts(row))


def _refusal(bad: list[BadRow], num_good: int = 0) -> DataError:
    """Returns the error that names the first of these rows, and how many there are."""
    others = [row.place.rpartition(", ")[2] for row in bad[1:NAMED]]
    more = f" {len(bad):,} of {len(bad) + num_good:,} rows cannot be used, also {', '.join(others)}." if others else ""
    return DataError(
        f"{bad[0]}.{more} Mend the row or take it out; `finetune` and `create_finetuning_data` leave such rows out with "
        "--on_bad_row=skip."
    )


@dataclasses.dataclass(frozen=True)
class _Table:
    """What is read, and what becomes of a row that cannot be used; attributes as in `read_table`."""

    path: str
    columns: Columns
    with_labels: bool | None
    bad_rows: list[BadRow] | None
    may_be_empty: bool
    label_lists: bool

    def refuse(self, place: str, found: str) -> None:
        """Notes a row that cannot be used, or raises a DataError."""
        if self.bad_rows is None:
            raise _refusal([BadRow(place, found)])
        self.bad_rows.append(BadRow(place, found))

    def accepts(self, row: Row) -> bool:
        """Returns whether nothing is empty in a row that has a label, unless it may be."""
        if row.label is None or self.may_be_empty:
            return True
        empty = [
            name for name, cell in (("label", row.label), *(("text", text) for text in row.texts)) if not cell.strip()
        ]
        if empty:
            self.refuse(f"{self.path}, line {row.line}", f"the {empty[0]} is empty")
        return not empty


def _lines(table: _Table, file, kind: str) -> Iterator[Row]:
    """Yields the rows of a file of text: lines with `__label__`, or a table without quotes."""
    is_labelled, lines = labelled_lines.recognize(file)
    if not is_labelled:
        yield from _separated(table, lines, kind)
        return
    columns = table.columns
    given = zip(FLAGS, (columns.text, columns.text_pair, columns.label), strict=True)
    labelled_lines.check_columns((f"{flag}={value}" for flag, value in given if value is not None), table.path)
    several = table.label_lists or table.with_labels is False
    for number, text, labels in labelled_lines.read(lines, table.path, several, table.refuse):
        if table.with_labels is False:
            labels = None
        one = labels[0] if labels and not table.label_lists else None
        yield Row((text,), one, number, labels if table.label_lists else None)


def _separated(table: _Table, file, kind: str) -> Iterator[Row]:
    return separated_rows(
        file, delimiter_of(kind), table.columns, table.with_labels, table.path, lambda number: f"{table.path}, line {number}",
        refuse=table.refuse, quoted=kind == ".csv",
    )  # fmt: skip


def separated_rows(
    lines: Iterable[str],
    delimiter: str,
    columns: Columns,
    with_labels: bool | None,
    path: str,
    place: Callable[[int], str],
    longest_field: int = LONGEST_FIELD,
    refuse: Callable[[str, str], None] = raise_refusal,
    quoted: bool | None = None,
) -> Iterator[Row]:
    """Yields the rows of TSV (without quotes) or CSV; the first line names the columns unless they are chosen by position.

    Args:
        place: gives file and line for messages, from the number of the first line of a row.
        refuse: called with the place of a row that cannot be used and what is wrong with it; raises an error, or the row is
            left out. A quote in CSV that is not closed is such, and so is text behind a closing one.
        quoted: as of `records`.
    """
    header = wanted = None
    for line, fields in records(lines, delimiter, place, refuse, longest_field, quoted):
        if not fields:
            continue
        if header is None and not columns.by_position:
            header = fields
            wanted = find_columns(header, columns, with_labels, path)
            continue
        if columns.by_position:
            is_first, header = header is None, fields
            wanted = [
                c and int(c)
                for c in (columns.text, columns.text_pair, columns.label if with_labels is not False else None)
            ]
            if is_first:
                check_no_header(fields, wanted, place(line))
        elif len(fields) > len(header):
            refuse(
                place(line),
                f"{len(fields)} columns, the first line names {len(header)}; is there a stray separator in the text?",
            )
            continue
        needed = 1 + max(i for i in wanted if i is not None)
        if needed > len(fields):
            refuse(place(line), f"{len(fields)} column(s), expected at least {needed}")
            continue
        text, pair, label = (None if i is None else fields[i] for i in wanted)
        yield Row((text,) if pair is None else (text, pair), None if label is None else label.strip(), line)


def _json(table: _Table, file, kind: str) -> Iterator[Row]:
    path, names = table.path, None
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            value = json_object(line)
        except BadObject as error:
            table.refuse(place, str(error))
            continue
        names = names or [
            list(value)[i] if i is not None else None
            for i in find_columns(list(value), table.columns, table.with_labels, path)
        ]
        missing = [name for name in names if name is not None and name not in value]
        if missing:
            table.refuse(place, f"no field {missing[0]!r}. Found: {', '.join(value)}")
            continue
        cells = [None if name is None else value[name] for name in names]
        labels = None
        if table.label_lists and isinstance(cells[2], list):
            if (labels := _labels(cells[2])) is None:
                table.refuse(
                    place, f"field {names[2]!r} holds {cells[2]!r:.60}, expected text, or a list of texts, none empty"
                )
                continue
            cells[2] = "".join(labels)  # for the bound below
        strange = [n for n, cell in zip(names, cells, strict=True) if isinstance(cell, dict | list)]
        if strange:
            table.refuse(place, f"field {strange[0]!r} holds {type(value[strange[0]]).__name__}, expected text")
            continue
        texts = ["" if cell is None else str(cell) for cell in cells]
        if (longest := max(map(len, texts))) > LONGEST_FIELD:
            table.refuse(place, f"a field holds {longest:,} characters, more than {LONGEST_FIELD:,}")
            continue
        text, pair, label = (None if name is None else text for name, text in zip(names, texts, strict=True))
        label = None if label is None or labels is not None else label.strip()
        yield Row((text,) if pair is None else (text, pair), label, number, labels)


class BadObject(ValueError):
    """A line that holds no object of JSON; the message says what it holds."""


def json_object(line: str) -> dict:
    """Returns the object on a line. Raises a BadObject if it holds something else."""
    try:
        value = strict_json.loads(line)
    except json.JSONDecodeError as error:
        raise BadObject(f"not JSON ({error.msg}, column {error.colno})") from None
    if not isinstance(value, dict):
        raise BadObject(f"expected a JSON object with fields, found {type(value).__name__}")
    return value


def _labels(cell: list) -> tuple[str, ...] | None:
    """Returns a list of labels of JSON; None where one is empty, or neither text nor number."""
    labels = tuple(str(each).strip() for each in cell if type(each) in (str, int, float))
    return labels if len(labels) == len(cell) and all(labels) else None
