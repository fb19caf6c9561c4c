"""Kinds of characters, of which a TensorFlow graph asks."""

import functools
import sys
from collections.abc import Callable

import numpy as np
import tensorflow as tf


def holds_of(code: tf.Tensor, holds: Callable[[str], bool]) -> tf.Tensor:
    """Returns that of which characters something is true, bool like `code`, int32; of negative numbers it is not.

    Args:
        holds: a function of this project or of Python, since all characters are asked once and the answers kept.
    """
    return tf.searchsorted(tf.constant(edges(holds)), code, side="right") % 2 == 1


@functools.cache
def edges(holds: Callable[[str], bool]) -> np.ndarray:
    """Returns the first of each run of characters of which it is true, and the one behind its last, int32 (2 R,)."""
    there = np.array([False, *(bool(holds(chr(code))) for code in range(sys.maxunicode + 1)), False])
    return np.flatnonzero(there[1:] != there[:-1]).astype(np.int32)
