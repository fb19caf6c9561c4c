"""Gradient accumulation: the gradients of a batch that does not fit into memory, summed over its parts."""

from collections.abc import Callable

import tensorflow as tf

from xmodels.training.step.sparse import Table, is_sparse


def accumulate(compute: Callable, batch: dict, parts: int, like: list[tf.TensorSpec | Table]) -> list:
    """Returns the sum of `compute(part, number)` over the parts of a batch, which are computed one after the other.

    Args:
        compute: takes a part of the batch and its number, from 0, and returns a list of tensors that add up over examples.
        batch: features whose first axis, B, is a multiple of `parts`.
        parts: the number of parts.
        like: the shapes and dtypes of the tensors. For a `Table`, whose gradient is sparse, the rows of all parts are kept.

    Raises:
        TypeError: the gradient of a `Table` is dense.
    """
    pieces = {name: _split(x, parts) for name, x in batch.items()}  # (parts, B / parts, ...)

    def add(number, sums):
        found = compute({name: x[number] for name, x in pieces.items()}, number)
        return number + 1, [_add_gradient(total, value, number) for total, value in zip(sums, found, strict=True)]

    start = (tf.constant(0), [_nothing(spec, parts) for spec in like])
    # `parallel_iterations=1`, or memory would hold the activations of several parts.
    sums = tf.while_loop(lambda number, sums: number < parts, add, start, parallel_iterations=1)[1]
    return [_total(total, spec) for total, spec in zip(sums, like, strict=True)]


def _nothing(spec, parts: int):
    if not isinstance(spec, Table):
        return tf.zeros(spec.shape, spec.dtype)
    return tuple(tf.TensorArray(dtype, parts) for dtype in (spec.dtype, tf.int32))


def _add_gradient(total, value, number):
    if not isinstance(total, tuple):
        return total + value
    if not is_sparse(value):
        raise TypeError("A table with sparse gradients has a dense one: it is used otherwise than by rows.")
    return total[0].write(number, value.values), total[1].write(number, tf.cast(value.indices, tf.int32))


def _total(total, spec):
    if not isinstance(total, tuple):
        return total
    return tf.IndexedSlices(total[0].concat(), total[1].concat(), tf.constant(list(spec.shape), tf.int32))


def _split(x: tf.Tensor, parts: int) -> tf.Tensor:
    rows = None if x.shape[0] is None else x.shape[0] // parts
    split = tf.reshape(x, tf.concat([[parts, tf.shape(x)[0] // parts], tf.shape(x)[1:]], axis=0))
    split.set_shape([parts, rows, *x.shape[1:]])
    return split
