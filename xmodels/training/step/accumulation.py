"""Gradients of a batch that does not fit into memory at once: the sum over its parts."""

from collections.abc import Callable

import tensorflow as tf


def accumulate(compute: Callable, batch: dict, parts: int, like: list[tf.TensorSpec]) -> list[tf.Tensor]:
    """The sum of `compute(part, number)` over the parts of a batch, one after the other.

    Args:
        compute: takes a batch and the number of the part, and returns tensors that add up over examples.
        batch: features whose first axis, B, is a multiple of `parts`.
        like: shapes and types of what `compute` returns.
    """
    pieces = {name: _split(x, parts) for name, x in batch.items()}  # (parts, B / parts, ...)

    def add(number, sums):
        piece = {name: x[number] for name, x in pieces.items()}
        return number + 1, [total + value for total, value in zip(sums, compute(piece, number), strict=True)]

    start = (tf.constant(0), [tf.zeros(spec.shape, spec.dtype) for spec in like])
    # One after the other, or memory would hold the activations of several parts.
    return tf.while_loop(lambda number, sums: number < parts, add, start, parallel_iterations=1)[1]


def _split(x: tf.Tensor, parts: int) -> tf.Tensor:
    rows = None if x.shape[0] is None else x.shape[0] // parts
    split = tf.reshape(x, tf.concat([[parts, tf.shape(x)[0] // parts], tf.shape(x)[1:]], axis=0))
    split.set_shape([parts, rows, *x.shape[1:]])
    return split
