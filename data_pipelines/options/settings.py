"""Parses settings of the form `name=value,name=value`, typed by the fields of a dataclass."""

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Mapping
from typing import Any

from data_pipelines.errors import CheckpointError, UsageError

NEXT = re.compile(r",(?=\s*[\w.]+\s*=)")  # values may contain commas, as those of tuples do
WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse(text: str | None) -> dict[str, str]:
    """Parses `name=value,name=value` into {name: value}. Raises a UsageError if a part has another form or a name is repeated."""
    found: dict[str, str] = {}
    for part in NEXT.split(text or ""):
        if not part.strip():
            continue
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(f"--set={part.strip()}: expected NAME=VALUE, such as --set=label_smoothing=0.2.")
        if name in found:
            raise UsageError(f"--set={name}: given twice, as {found[name]} and as {value}.")
        found[name] = value
    return found


def convert_value(name: str, value: str, kind: Any) -> Any:
    """Converts `value` to the type `kind` of a field. Raises a UsageError that says what was expected."""
    if isinstance(kind, types.UnionType):  # int | None
        if value.lower() == "none":
            return None
        (kind,) = (each for each in typing.get_args(kind) if each is not type(None))
    try:
        if kind is bool:
            return WORDS[value.lower()]
        if typing.get_origin(kind) is tuple:
            inner = typing.get_args(kind)[0]
            return tuple(inner(each) for each in value.strip("()[]").split(",") if each.strip())
        return kind(value)
    except (KeyError, ValueError):
        expected = {bool: "true or false", int: "a whole number", float: "a number"}.get(
            kind, "numbers parted by commas"
        )
        raise UsageError(f"--set={name}={value}: expected {expected}.") from None


def apply(instance: Any, given: Mapping[str, str]) -> Any:
    """Returns a copy of a dataclass with the fields in `given` changed.

    Args:
        given: {field: value as text}.

    Raises:
        UsageError: a value has the wrong type, or the dataclass rejects it.
    """
    kinds = {field.name: field.type for field in dataclasses.fields(instance)}
    values = {name: convert_value(name, text, kinds[name]) for name, text in given.items()}
    try:
        return dataclasses.replace(instance, **values)
    except ValueError as error:
        raise UsageError(f"--set={','.join(f'{n}={v}' for n, v in given.items())}: {error}") from None


def apply_to_network(config: Any, given: Mapping[str, str]) -> Any:
    """Returns the configuration of a network (`models.config`) with the fields in `given` changed.

    Args:
        given: {name of `config.settings()`: value as text}.

    Raises:
        UsageError: a value has the wrong type, or does not suit the network.
    """
    kinds = config.settings()
    values = {name: convert_value(name, text, kinds[name]) for name, text in given.items()}
    try:
        return config.with_values(values, f"--set={','.join(f'{n}={v}' for n, v in given.items())}")
    except (CheckpointError, ValueError) as error:
        raise UsageError(str(error)) from None


def check_known(given: Mapping[str, str], known: Mapping[str, list[str]]) -> None:
    """Raises a UsageError for the first name that is in none of the lists of `known`, {title of the list: names}."""
    everything = [name for names in known.values() for name in names]
    for name, value in given.items():
        if name not in everything:
            near = difflib.get_close_matches(name, everything, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            listed = "; ".join(f"{whose}: {', '.join(names) or 'none'}" for whose, names in known.items())
            raise UsageError(f"--set={name}={value}: unknown name.{hint} Known of {listed}.")
