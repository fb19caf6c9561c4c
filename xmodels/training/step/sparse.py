"""Gradients of tables by rows (`tf.IndexedSlices`), from the backward pass to the update, without a table of zeros.

All functions also take dense gradients, which they treat as TensorFlow does. Shapes are static: rows of duplicates keep
their places, so nothing depends on how many different rows a batch has.
"""

from typing import NamedTuple

import tensorflow as tf

SUM = tf.distribute.ReduceOp.SUM


class Table(NamedTuple):
    """The shape and type of a variable whose gradient is sparse."""

    shape: tuple[int, ...]
    dtype: str


def is_sparse(gradient) -> bool:
    return isinstance(gradient, tf.IndexedSlices)


def no_gradient(variable, sparse: bool):
    """The gradient of a variable that a loss does not depend on."""
    if not sparse:
        return tf.zeros_like(variable)
    values = tf.zeros((0, *variable.shape[1:]), variable.dtype)
    return tf.IndexedSlices(values, tf.zeros((0,), tf.int32), tf.constant(variable.shape.as_list(), tf.int32))


def of_values(gradient, function):
    """`function` of the numbers of a gradient."""
    if not is_sparse(gradient):
        return function(gradient)
    return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)


def values_of(gradient) -> tf.Tensor:
    """The numbers of a gradient, whose squares sum to its squared norm if its rows are different."""
    return gradient.values if is_sparse(gradient) else gradient


def merge_duplicates(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """The same gradient with the sum of equal rows in one place; the places left over hold zeros.

    (N, D) values stay (N, D). A place left over names a row that another place names too.
    """
    indices, count = gradient.indices, tf.shape(gradient.indices)[0]
    order = tf.argsort(indices, stable=True)  # (N,)
    ordered = tf.gather(indices, order)
    opens = tf.concat([tf.zeros_like(ordered[:1]), tf.cast(ordered[1:] != ordered[:-1], ordered.dtype)], axis=0)
    group = tf.cumsum(opens)  # (N,) 0, 0, 1, 2, 2, ...
    values = tf.math.unsorted_segment_sum(tf.gather(gradient.values, order), group, count)  # (N, D)
    rows = tf.math.unsorted_segment_max(ordered, group, count)
    rows = tf.maximum(rows, tf.reduce_min(indices))  # of places left over
    return tf.IndexedSlices(tf.ensure_shape(values, gradient.values.shape), rows, gradient.dense_shape)


def sum_over_replicas(context, gradients: list, sums: tf.Tensor) -> tuple[list, tf.Tensor]:
    """The gradients and pairs of all replicas, summed; of sparse ones the rows of all replicas, each row once."""
    dense = [gradient for gradient in gradients if not is_sparse(gradient)]
    *dense, sums = context.all_reduce(SUM, [*dense, sums])
    dense = iter(dense)
    return [_gathered(context, g) if is_sparse(g) else next(dense) for g in gradients], sums


def _gathered(context, gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    if context.num_replicas_in_sync > 1:
        values, indices = (context.all_gather(x, axis=0) for x in (gradient.values, gradient.indices))
        gradient = tf.IndexedSlices(values, indices, gradient.dense_shape)
    return merge_duplicates(gradient)
