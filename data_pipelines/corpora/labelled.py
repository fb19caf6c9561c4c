"""What the readers of labelled data share: one example before tokenization, and JSON."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from data_pipelines.corpora.tables import BadObject, BadRow, json_object
from data_pipelines.corpora.text_files import read_lines
from data_pipelines.errors import DataError


@dataclasses.dataclass(frozen=True)
class RawExample:
    """One example as its file has it.

    Attributes:
        place: file and line, or file and path inside its JSON, for messages.
        value: what a task encodes; plain lists, dicts, strings and numbers, as it is kept in JSON for the workers.
        id: what the file calls it; None where it has no name.
        problem: why it cannot be used, with what to change; None where it can.
    """

    place: str
    value: dict[str, Any]
    id: str | None = None
    problem: str | None = None


def broken_examples(bad_rows: list[BadRow] | None) -> Iterator[RawExample]:
    """Yields rows that a table could not give, as examples with a problem."""
    for row in bad_rows or []:
        yield RawExample(row.place, {}, problem=f"broken row: {row.found}")


def read_json_lines(path: str) -> Iterator[tuple[str, dict]]:
    """Yields the objects of a JSON lines file, each behind its place, for messages: file and line."""
    for place, line in read_lines(path):
        try:
            yield place, json_object(line)
        except BadObject as error:
            raise DataError(f"{place}: {error}.") from None


def name_of(value: dict) -> str | None:
    """Returns what an object of JSON calls itself; None where it has no name."""
    return None if value.get("id") is None else str(value["id"])


def first_of(value: dict, names: tuple[str, ...], place: str) -> Any:
    """Returns the first field of an object that has one of these names.

    Raises:
        DataError: it has none of them.
    """
    for name in names:
        if name in value:
            return value[name]
    raise DataError(f"{place}: no field {' or '.join(map(repr, names))}. Found: {', '.join(map(str, value))[:200]}.")


def as_text(value: Any, place: str) -> str:
    """Returns a text or a number of JSON as text. Raises a DataError where it is something else."""
    if type(value) not in (str, int, float):
        raise DataError(f"{place}: expected a text. Found: {value!r:.60}.")
    return str(value)


def as_texts(value: Any, place: str) -> list[str]:
    """Returns a list of texts or numbers of JSON as texts. Raises a DataError where it is something else."""
    if not isinstance(value, list):
        raise DataError(f"{place}: expected a list of texts. Found: {value!r:.60}.")
    return [as_text(each, place) for each in value]
