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
    """The same gradient with the sum of equal rows in the place of the last of them; the other places hold zeros.

    (N, D) values stay (N, D). Nothing is sorted: a number for each row of the table says where its sum stands.
    """
    indices = gradient.indices
    count = tf.shape(indices)[0]
    last = tf.zeros([gradient.dense_shape[0]], tf.int32)
    last = tf.tensor_scatter_nd_max(last, indices[:, None], tf.range(count))  # (V,)
    values = tf.math.unsorted_segment_sum(gradient.values, tf.gather(last, indices), count)  # (N, D)
    return tf.IndexedSlices(tf.ensure_shape(values, gradient.values.shape), indices, gradient.dense_shape)


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
