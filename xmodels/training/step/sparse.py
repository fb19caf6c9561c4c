"""Sparse gradients of embedding tables (`tf.IndexedSlices`), from the backward pass to the update, without a dense table.

Functions also take dense gradients unless they say otherwise. Shapes are static: duplicate rows keep their places, so nothing
depends on how many different rows a batch has.
"""

from typing import NamedTuple

import tensorflow as tf

SUM = tf.distribute.ReduceOp.SUM


class Table(NamedTuple):
    """The shape and dtype of a variable whose gradient is sparse."""

    shape: tuple[int, ...]
    dtype: str


def is_sparse(gradient) -> bool:
    return isinstance(gradient, tf.IndexedSlices)


def no_gradient(variable, sparse: bool):
    """Returns the gradient of a variable that the loss does not depend on: zeros, or no rows if `sparse`."""
    if not sparse:
        return tf.zeros_like(variable)
    values = tf.zeros((0, *variable.shape[1:]), variable.dtype)
    return tf.IndexedSlices(values, tf.zeros((0,), tf.int32), tf.constant(variable.shape.as_list(), tf.int32))


def of_values(gradient, function):
    """Applies `function` to the values of a gradient."""
    if not is_sparse(gradient):
        return function(gradient)
    return tf.IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)


def values_of(gradient) -> tf.Tensor:
    """Returns the values of a gradient. Their squares sum to its squared norm if no row occurs twice."""
    return gradient.values if is_sparse(gradient) else gradient


def merge_duplicates(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Sums duplicate rows into the last of them and sets the others to zero. The values stay (N, D).

    Nothing is sorted: an index for each row of the table says where its sum goes.
    """
    indices = gradient.indices
    count = tf.shape(indices)[0]
    last = tf.zeros([gradient.dense_shape[0]], tf.int32)
    last = tf.tensor_scatter_nd_max(last, indices[:, None], tf.range(count))  # (V,)
    values = tf.math.unsorted_segment_sum(gradient.values, tf.gather(last, indices), count)  # (N, D)
    return tf.IndexedSlices(tf.ensure_shape(values, gradient.values.shape), indices, gradient.dense_shape)


def sum_over_replicas(context, gradients: list, sums: tf.Tensor) -> tuple[list, tf.Tensor]:
    """Sums gradients and (sum, weight) pairs over all replicas. Sparse gradients get the rows of all replicas, without duplicates."""
    dense = [gradient for gradient in gradients if not is_sparse(gradient)]
    *dense, sums = context.all_reduce(SUM, [*dense, sums])
    dense = iter(dense)
    return [_gather_rows(context, g) if is_sparse(g) else next(dense) for g in gradients], sums


def _gather_rows(context, gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    if context.num_replicas_in_sync > 1:
        values, indices = (context.all_gather(x, axis=0) for x in (gradient.values, gradient.indices))
        gradient = tf.IndexedSlices(values, indices, gradient.dense_shape)
    return merge_duplicates(gradient)
