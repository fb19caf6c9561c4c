"""A weight of ours beside that of another implementation."""

import dataclasses
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Row:
    """A weight: our name without `backbone.`, their name and their shape, and how it lies there."""

    ours: str
    theirs: str
    shape: tuple[int, ...]
    to_ours: Callable[[np.ndarray], np.ndarray] = lambda value: value
    to_theirs: Callable[[np.ndarray], np.ndarray] = lambda value: value
