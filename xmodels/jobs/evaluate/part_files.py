"""Predictions of a part of a file, as JSON lines that give back what was predicted: numbers, texts, arrays and dataclasses of ours."""

import dataclasses
import importlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from data_pipelines.errors import DataError
from data_pipelines.files import whole_file

KIND = ""  # the key under which a value says what it is, where JSON has no such kind
ARRAY, PAIRS, TUPLE = "array", "pairs", "tuple"
OURS = ("xmodels.", "data_pipelines.")  # packages whose dataclasses are read


def write_predictions(path: str, predictions: Sequence) -> None:
    """Writes a prediction a line; the file is there whole or not at all.

    Raises:
        TypeError: one holds a value that is none of those above.
    """
    with whole_file(path, "w") as file:
        file.writelines(json.dumps(as_json(each), ensure_ascii=False) + "\n" for each in predictions)


def read_predictions(path: str) -> Iterator:
    """Yields what `write_predictions` wrote.

    Raises:
        DataError: a line is something else.
    """
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield from_json(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError, ImportError) as error:
                raise DataError(f"{path}, line {number}: is no prediction ({error}). Remove the file.") from None


def as_json(value: Any) -> Any:
    """Returns a value as `json` can write it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        fields = {each.name: as_json(getattr(value, each.name)) for each in dataclasses.fields(value) if each.init}
        return {KIND: f"{kind.__module__}:{kind.__qualname__}"} | fields
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {KIND: ARRAY, "dtype": value.dtype.name, "values": value.tolist()}
    if isinstance(value, tuple):
        return {KIND: TUPLE, "values": [as_json(each) for each in value]}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and KIND not in value:
            return {key: as_json(each) for key, each in value.items()}
        return {KIND: PAIRS, "values": [[as_json(key), as_json(each)] for key, each in value.items()]}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"A prediction holds {value!r}, which no part of a file can keep.")


def from_json(value: Any) -> Any:
    """Returns the value of `as_json`."""
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(KIND)
    if kind is None:
        return {key: from_json(each) for key, each in value.items()}
    if kind == ARRAY:
        return np.array(value["values"], value["dtype"])
    if kind == TUPLE:
        return tuple(from_json(each) for each in value["values"])
    if kind == PAIRS:
        return {from_json(key): from_json(each) for key, each in value["values"]}
    return dataclass_of(kind)(**{key: from_json(each) for key, each in value.items() if key != KIND})


def dataclass_of(name: str) -> type:
    """Returns the dataclass `module:Class`. Raises a ValueError where that is none of this project's."""
    module, _, qualname = name.partition(":")
    found = getattr(importlib.import_module(module), qualname, None) if module.startswith(OURS) else None
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise ValueError(f"{name!r} is no dataclass of xmodels")
    return found
