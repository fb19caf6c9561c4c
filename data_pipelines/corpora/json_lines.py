"""JSON lines: each line an object with the text of a document in one of its fields."""

import json
from collections.abc import Iterator
from typing import Any

from data_pipelines import strict_json
from data_pipelines.corpora.documents import Document, from_text
from data_pipelines.corpora.headers import TEXT_NAMES
from data_pipelines.corpora.lines import LONGEST_RECORD, Lines, Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError

DROPPED = object()  # in place of the value of a line that is left out
LIST = " For a file that is one JSON list, `jq -c '.[]'` makes lines of it."


def parse(line: str, lines: Lines) -> Any:
    """Returns the value of a line; DROPPED where it holds half a character and the reading leaves bad text out.

    Raises:
        DataError: names the line.
    """
    way = lines.reading.on_bad_text
    try:
        return strict_json.loads(line)
    except strict_json.HalfCharacter as error:
        if way == "fail":
            raise DataError(f"{lines.place}: {error.msg}. Go on with --on_bad_text=replace or drop.") from None
        lines.monitor.counts["bad_text_dropped" if way == "drop" else "bad_text_replaced"] += 1
        return DROPPED if way == "drop" else strict_json.loads(line, replace=True)
    except json.JSONDecodeError as error:
        hint = LIST if line[:1] == "[" else ""
        if "\r" in line:
            hint = " Its lines seem to end with carriage returns (CR) alone; `tr '\\r' '\\n'` makes line feeds of them."
        raise DataError(f"{lines.place}: not JSON ({error.msg}, column {error.colno}).{hint}") from None


def objects(lines: Lines) -> Iterator[dict]:
    """Yields the objects on the lines that are not blank."""
    for line in lines:
        if line and (value := parse(line, lines)) is not DROPPED:
            if not isinstance(value, dict):
                found, hint = type(value).__name__, LIST if isinstance(value, list) else ""
                raise DataError(f"{lines.place}: expected a JSON object with fields, found {found}.{hint}")
            yield value


def field(record: dict, name: str | None, usual: tuple[str, ...], place, flag: str = "--text_field") -> Any:
    """Returns a field by its name or by the path of a field inside fields, `meta.text`; without a name, the first usual one.

    Args:
        place: gives the file and the line, for the message.

    Raises:
        DataError: no such field.
    """
    if name is None:
        name = next((n for n in usual if n in record), None)
        if name is not None:
            return record[name]
    elif name in record:
        return record[name]
    else:
        value: Any = record
        for part in name.split("."):
            value = value.get(part, _MISSING) if isinstance(value, dict) else _MISSING
        if value is not _MISSING:
            return value
    wanted = repr(name) if name is not None else f"named {', '.join(usual[:-1])} or {usual[-1]}"
    raise DataError(
        f"{place()}: no field {wanted}. Found: {', '.join(map(str, record))[:200]}. Name it with {flag}; a field inside "
        "another is written meta.text."
    )


_MISSING = object()


def text_of(value: Any, place, monitor: Monitor) -> str:
    """Returns the text in a field; null counts as an empty document.

    Raises:
        DataError: the field holds something else.
    """
    if value is not None and not isinstance(value, str):
        raise DataError(f"{place()}: the field holds {type(value).__name__}, expected text. Choose it by --text_field.")
    if not (value and value.strip()):
        monitor.counts["empty_documents"] += 1
    return value or ""


def read(piece: Piece, reading: Reading, monitor: Monitor, drop_title: bool = False) -> Iterator[Document]:
    """Yields a document for each line; line breaks in its text part paragraphs.

    Args:
        drop_title: leave out the first line of a text where it is the field `title`.
    """
    lines = Lines(piece, "line", reading, monitor, LONGEST_RECORD)
    for record in objects(lines):
        text = text_of(field(record, reading.text_field, TEXT_NAMES, lambda: lines.place), lambda: lines.place, monitor)
        if drop_title and record.get("title"):
            first, line_end, rest = text.lstrip("\n").partition("\n")
            text = rest if line_end and first.strip() == str(record["title"]).strip() else text
        yield from from_text(text, reading, monitor, lines.source, lambda: lines.place)
