"""Compares a SavedModel with the run that it was made of, before it takes its place."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from xmodels.tasks.base.answer import without_padding
from xmodels.tasks.base.signatures import ask

TOLERANCE = 1e-3  # padding to another length reorders sums, and GPUs round the factors of float32 products (TF32)
FILLING = ("", 0, -1)  # what rows end in that have fewer values than others
REPORT = "Please report this."


def compare_answers(
    signature: Callable,
    columns_of: Callable[[Sequence], Mapping[str, Any]],
    rows: Sequence,
    expected: Callable[[int, Mapping[str, np.ndarray]], Mapping[str, Any]],
    copies: int = 1,
) -> float:
    """Returns the largest difference between the numbers of a SavedModel and those of the run, of rows together and one by one.

    Args:
        signature: function of the SavedModel.
        columns_of: rows -> {name of an input: its values}.
        rows: what both are asked.
        expected: (place of a row, what the SavedModel answers) -> what it has to answer. Where rounding decides, such as between
            labels that are equally likely, it may return what follows from the numbers of the SavedModel.
        copies: how often the rows stand in the batch of all of them; 0 asks one by one only.

    Raises:
        RuntimeError: numbers differ by more than `TOLERANCE`, or anything else differs at all.
    """
    largest, count = 0.0, len(rows)
    together = ask(signature, columns_of([*rows] * copies)) if copies else {}
    for place, row in enumerate(rows):
        alone = ask(signature, columns_of([row]))
        answers = [(alone, 0), *((together, place + count * copy) for copy in range(copies))]
        for found in ({name: value[index] for name, value in answer.items()} for answer, index in answers):
            largest = max(largest, compare_row(found, expected(place, found)))
    return largest


def compare_row(found: Mapping[str, np.ndarray], expected: Mapping[str, Any]) -> float:
    """Works as `compare_answers`, of one row. Rows that are longer than expected must end in `FILLING`."""
    largest = 0.0
    for name, wanted in expected.items():
        value, wanted = found[name], np.asarray(wanted)
        value, rest = (value[: len(wanted)], value[len(wanted) :]) if wanted.ndim else (value, np.zeros(0))
        if any(each not in FILLING for each in as_texts(rest)):
            raise RuntimeError(f"The exported model gives more values of `{name}` than the run. {REPORT}")
        if wanted.dtype.kind == "f":
            scale = max(1.0, np.abs(wanted).max(initial=0.0))
            largest = max(largest, check_difference(float(np.abs(value - wanted).max(initial=0.0) / scale)))
        elif as_texts(value) != wanted.tolist():
            raise RuntimeError(
                f"The exported model answers `{name}` otherwise than the run: {as_texts(value)!r:.200} instead of "
                f"{wanted.tolist()!r:.200}. {REPORT}"
            )
    return largest


def as_texts(value: np.ndarray):
    """Returns an output of a row, (...), as Python has it, with texts for bytes."""
    found = np.asarray(value).tolist()
    decode = lambda each: each.decode() if isinstance(each, bytes) else each  # noqa: E731
    return [decode(each) for each in found] if isinstance(found, list) else decode(found)


def check_difference(difference: float) -> float:
    """Returns a difference of numbers. Raises a RuntimeError if it is above `TOLERANCE`."""
    if not difference <= TOLERANCE:
        raise RuntimeError(
            f"The exported model does not answer as the run does: numbers differ by up to {difference:.2g}. {REPORT}"
        )
    return difference


def check_tokens(signature: Callable, columns: Mapping[str, Any], features: Mapping[str, np.ndarray]) -> None:
    """Raises a RuntimeError unless the signature gives the features of the run, up to padding."""
    found, expected = ask(signature, columns), without_padding(features)
    if not all(np.array_equal(found[name], expected[name]) for name in expected):
        raise RuntimeError(f"The exported model cuts texts into other pieces than the run. {REPORT}")


def check_empty(signature) -> None:
    """Raises a RuntimeError if the signature answers a batch without rows."""
    specs = signature.structured_input_signature[1]
    nothing = {name: tf.zeros([0, *(size or 1 for size in spec.shape[1:])], spec.dtype) for name, spec in specs.items()}
    if any(len(value) for value in signature(**nothing).values()):
        raise RuntimeError(f"The exported model answers an empty batch. {REPORT}")
