"""What a SavedModel takes and gives: a method of the graph, and a line about each of its inputs and outputs.

From this come the specs of the graph, the tables and requests of README.md, and the comparison with the run.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from xmodels.layers.attention.writing import assigned_slices

DEFAULT, TOKENS, ATTENTION = "serving_default", "tokens", "attention"  # names of signatures


@dataclasses.dataclass(frozen=True)
class Column:
    """An input or an output of a signature.

    Attributes:
        name: of the column.
        axes: a letter for each axis, such as "BC", or its size. README.md has sizes that the graph knows instead of letters.
        note: what README.md says behind dtype and shape.
        dtype: of an input; that of an output is what the graph gives.
    """

    name: str
    axes: Sequence[str | int]
    note: str = ""
    dtype: tf.DType = tf.string

    def spec(self) -> tf.TensorSpec:
        """Returns the spec of an input."""
        return tf.TensorSpec([axis if isinstance(axis, int) else None for axis in self.axes], self.dtype, self.name)


@dataclasses.dataclass(frozen=True)
class Signature:
    """A signature of a SavedModel.

    Attributes:
        method: takes the inputs in order and returns {name of an output: tensor}.
        inputs, outputs: in the order of README.md, which also names outputs that are not described here.
        axes: of outputs that are not described.
        note: lines of README.md below the table.
    """

    method: Callable[..., Mapping[str, tf.Tensor]]
    inputs: Sequence[Column]
    outputs: Sequence[Column] = ()
    axes: Sequence[str | int] = "BL"
    note: str = ""

    def function(self):
        """Returns the graph of the method."""
        specs = [each.spec() for each in self.inputs]
        with assigned_slices():
            return tf.function(self.method, autograph=False).get_concrete_function(*specs)


def ask(signature: Callable, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns what a signature answers to {name of an input: its values}."""
    return {n: x.numpy() for n, x in signature(**{n: tf.constant(value) for n, value in columns.items()}).items()}


def as_json(value):
    """Returns an output as JSON has it: lists, texts, and numbers that are rounded to four digits."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [as_json(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value.decode() if isinstance(value, bytes) else value


def by_rows(columns: Mapping[str, list]) -> list:
    """Returns a dictionary for each row; of a single column its values, as TensorFlow Serving has them."""
    if len(columns) == 1:
        return next(iter(columns.values()))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def in_columns(names: Sequence[str], rows: Sequence[tuple]) -> dict[str, list]:
    """Returns {name: values} of rows, all of the same length; lists in a column are filled up with "" to one length."""
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return {name: filled_up(column) if isinstance(column[0], list) else column for name, column in columns.items()}


def filled_up(lists: Sequence[list[str]]) -> list[list[str]]:
    """Returns lists of one length, of which the shorter ones end in empty strings."""
    longest = max(map(len, lists))
    return [[*each, *[""] * (longest - len(each))] for each in lists]
