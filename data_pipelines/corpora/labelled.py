"""What the readers of labelled data share: one example before tokenization, and JSON."""

import dataclasses
import json
import os
from collections.abc import Iterator
from typing import Any

from data_pipelines import strict_json
from data_pipelines.corpora.compression import stem
from data_pipelines.corpora.tables import BadRow
from data_pipelines.corpora.text_files import open_text
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


def broken(bad_rows: list[BadRow] | None) -> Iterator[RawExample]:
    """Yields rows that a table could not give, as examples with a problem."""
    for row in bad_rows or []:
        yield RawExample(row.place, {}, problem=f"broken row: {row.found}")


def kind_of(path: str) -> str:
    """Returns the ending of a name that tells how to read it, such as `.json`; without that of a compression."""
    return os.path.splitext(stem(path))[1].lower()


def read_json_lines(path: str) -> Iterator[tuple[int, dict]]:
    """Yields the objects of a JSON lines file with their line numbers."""
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value = strict_json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{path}, line {number}: not JSON ({error.msg}, column {error.colno}).") from None
            if not isinstance(value, dict):
                raise DataError(
                    f"{path}, line {number}: expected a JSON object with fields, found {type(value).__name__}."
                )
            yield number, value


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
