"""Values of JSON as dataclasses: every fault is one line with the file, the key, what was found and what was expected.

The schema is the dataclass itself: its fields, their types and their defaults. `Annotated` types narrow a type further.
"""

import dataclasses
import functools
import json
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from data_pipelines import strict_json
from data_pipelines.errors import DataError, ReportedError

LARGEST = 2**63 - 1  # what NumPy and TensorFlow count with
MOST_NAMED = 8  # unknown keys that a message lists


@dataclasses.dataclass(frozen=True)
class Constraint:
    """What a value must be beside its type: `holds`, and how a message says it."""

    holds: Callable[[Any], bool]
    expected: str


def whole(least: int, most: int = LARGEST) -> Any:
    """Returns a whole number from `least` to `most`."""
    return Annotated[
        int, Constraint(lambda value: least <= value <= most, f"a whole number from {least}" + _upto(most, LARGEST))
    ]


def _upto(most: int, usual: int) -> str:
    return "" if most == usual else f" to {most}"


Count, Positive = whole(0), whole(1)
Finite = Annotated[float, Constraint(lambda value: abs(value) < LARGEST**4 and math.isfinite(value), "a finite number")]
Share = Annotated[float, Constraint(lambda value: 0 < value <= 1, "a number above 0, at most 1")]
Sha256 = Annotated[
    str,
    Constraint(
        lambda value: re.fullmatch("[0-9a-f]{64}", value) is not None, "a SHA-256, 64 of the characters 0-9 and a-f"
    ),
]
FileName = Annotated[
    str,
    Constraint(
        lambda value: value not in ("", ".", "..") and not set(value) & set("/\\\0"),
        "the name of a file in this folder",
    ),
]


def one_of(*names: str) -> Any:
    """Returns one of these texts."""
    return Annotated[str, Constraint(lambda value: value in names, f"one of {', '.join(names)}")]


NAMES = {
    int: "a whole number", float: "a number", str: "a text", bool: "true or false", dict: "an object", list: "a list",
    list[str]: "a list of texts", list[int]: "a list of whole numbers", dict[str, int]: "an object of whole numbers",
    list[int | None]: "a list of whole numbers and null",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Location:
    """Where a value stands, and what a message about it says.

    Attributes:
        file: the path of the file.
        key: the dotted name that leads to the value; empty for the whole file.
        error: the error that is raised.
        advice: what the user can do; the end of the message.
        verdict: goes before what is wrong.
    """

    file: str
    key: str = ""
    error: type[ReportedError] = DataError
    advice: str = ""
    verdict: str = "damaged: "

    def at(self, name: str | int) -> "Location":
        """Returns the place of an entry."""
        key = f"{self.key}[{name}]" if isinstance(name, int) else f"{self.key}.{name}" if self.key else name
        return dataclasses.replace(self, key=key)

    def fault(self, what: str) -> ReportedError:
        return self.error(f"{self.file}: {self.verdict}{what} {self.advice}".rstrip())

    def misfit(self, expected: str, found: Any) -> ReportedError:
        """Returns the error about a value of the wrong kind."""
        subject = f"`{self.key}` must be" if self.key else "expected"
        return self.fault(f"{subject} {expected}. Found: {_short(found)}.")


def _short(value: Any) -> str:
    """Returns the beginning of a value. Whole numbers of thousands of digits have no decimal form in Python."""
    if type(value) is int and abs(value) >= 10**60:
        return "a whole number of more than 60 digits"
    try:
        return f"{value!r:.60}"
    except ValueError:
        return f"a {type(value).__name__} with a number of thousands of digits"


def convert(value: Any, wanted: Any, place: Location) -> Any:
    """Returns the value as `wanted`: a dataclass, int, float, str, bool, dict, list, or one of the last two with the types of
    its entries, a tuple, `Annotated` or a union with None.

    Raises:
        the error of `place`: names file and key, what was found and what was expected.
    """
    if typing.get_origin(wanted) is Annotated:
        plain, narrower = typing.get_args(wanted)
        converted = convert(value, plain, place)
        if not narrower.holds(converted):
            raise place.misfit(narrower.expected, value)
        return converted
    if isinstance(wanted, types.UnionType) or typing.get_origin(wanted) is typing.Union:
        kinds = [kind for kind in typing.get_args(wanted) if kind is not type(None)]
        return None if value is None else convert(value, kinds[0], place)
    if wanted is Any:
        return value
    if dataclasses.is_dataclass(wanted):
        return _record(value, wanted, place)
    origin, inner = typing.get_origin(wanted) or wanted, typing.get_args(wanted)
    if origin is Mapping:
        origin = dict
    if not (_is(value, list if origin is tuple else origin) or (origin is tuple and type(value) is tuple)):
        raise place.misfit(_name(wanted, origin), value)
    if origin is float:
        return value
    if origin is dict and inner:
        return {name: _inner(entry, inner[1], place, name, wanted, value) for name, entry in value.items()}
    if origin in (list, tuple) and inner:
        if origin is tuple and inner[-1] is not Ellipsis and len(inner) != len(value):
            raise place.misfit(f"a list of {len(inner)} entries", value)
        kinds = [inner[0]] * len(value) if origin is list or inner[-1] is Ellipsis else inner
        found = (
            _inner(entry, kind, place, i, wanted, value)
            for i, (entry, kind) in enumerate(zip(value, kinds, strict=True))
        )
        return origin(found)
    return value


def read(wanted: Any, place: Location) -> Any:
    """Returns the value in the JSON file of a place; raises what `convert` raises, also where the file is not JSON."""
    try:
        return convert(strict_json.read(place.file), wanted, place)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise place.fault(f"not valid JSON ({error}).") from None


def _inner(entry: Any, kind: Any, place: Location, name: str | int, wanted: Any, whole_value: Any) -> Any:
    """Returns an entry of a list or an object. Of plain ones, which have a name as a whole, the whole is at fault."""
    try:
        return convert(entry, kind, place.at(name))
    except place.error:
        if wanted in NAMES:
            raise place.misfit(NAMES[wanted], whole_value) from None
        raise


def _is(value: Any, kind: type) -> bool:
    return type(value) in (int, float) if kind is float else type(value) is kind


def _name(wanted: Any, origin: type) -> str:
    return NAMES.get(wanted) or NAMES[list if origin is tuple else origin]


def fields(kind: type) -> dict[str, Any]:
    """Returns the fields of a dataclass with their types."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@functools.cache
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    """Returns the same, {name: (type, whether it must be there)}."""
    nothing, types_of = dataclasses.MISSING, fields(kind)
    return {
        field.name: (types_of[field.name], field.default is nothing and field.default_factory is nothing)
        for field in dataclasses.fields(kind)
    }


def _record(value: Any, kind: type, place: Location) -> Any:
    if type(value) is not dict:
        raise place.misfit("an object", value)
    known = _fields(kind)
    unknown = sorted(set(value) - set(known))
    if unknown:
        listed = ", ".join(f"`{place.at(name).key}`" for name in unknown[:MOST_NAMED])
        raise place.fault(f"unknown {listed:.300}; known here: {', '.join(known)}.")
    for name, (wanted, needed) in known.items():
        if needed and name not in value:
            raise _missing(name, wanted, place)
    return kind(**{name: convert(value[name], known[name][0], place.at(name)) for name in known if name in value})


def _missing(name: str, wanted: Any, place: Location) -> ReportedError:
    """Returns the error about a key that is not there."""
    if typing.get_origin(wanted) is Annotated:
        expected = typing.get_args(wanted)[1].expected
    else:
        expected = NAMES.get(wanted) or NAMES.get(typing.get_origin(wanted) or wanted, "an object")
    return place.fault(f"`{place.at(name).key}` is missing, expected {expected}.")
