"""What a Python program hands over to be answered: a text, a list, a column of numpy or pandas, a table of pandas."""

import math
from collections.abc import Mapping
from typing import Any

from data_pipelines.errors import DataError


def as_list(inputs: Any) -> list:
    """Returns the inputs one by one: a string is one text, and each row of a table, or of an array of two axes of texts, one tuple.

    Raises:
        DataError: one of them is missing (None, NaN) or a number, or they are no sequence; says which.
    """
    if isinstance(inputs, str):
        return [inputs]
    if isinstance(inputs, bytes | Mapping) or not hasattr(inputs, "__iter__"):
        raise DataError(f"Expected a text or a list of inputs. Found: {type(inputs).__name__} {inputs!r:.60}.")
    if hasattr(inputs, "itertuples"):  # a DataFrame, which iterates over the names of its columns
        found = [tuple(row) if len(row) > 1 else row[0] for row in inputs.itertuples(index=False, name=None)]
    elif getattr(getattr(inputs, "dtype", None), "kind", "") in ("O", "U", "T") and getattr(inputs, "ndim", 1) == 2:
        found = [tuple(row) for row in inputs.tolist()]
    else:
        found = list(inputs)
    for place, each in enumerate(found):
        for part in each if isinstance(each, tuple) else (each,):
            _check(part, place)
    return found


def as_texts(inputs: Any) -> list[str]:
    """Returns the inputs, of which each must be a text.

    Raises:
        DataError: as `as_list`; and an input is something else.
    """
    found = as_list(inputs)
    for place, each in enumerate(found):
        if not isinstance(each, str):
            raise DataError(f"Input {place}: expected a text. Found: {type(each).__name__} {each!r:.60}.")
    return [str(each) for each in found]


def _check(part: Any, place: int) -> None:
    """Raises a DataError where a cell is missing or cannot be a text."""
    missing = (
        part is None or type(part).__name__ in ("NAType", "NaTType") or (isinstance(part, float) and math.isnan(part))
    )
    if missing:
        raise DataError(
            f"Input {place}: expected a text, and there is none ({part!r}). Leave such rows out, as `dropna()` does."
        )
    if isinstance(part, bytes | bool | int | float):
        raise DataError(f"Input {place}: expected a text. Found: {type(part).__name__} {part!r:.60}.")
