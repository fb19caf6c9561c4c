"""Tokens sorted by buckets of a hash, in rounds and chunks (Kitaev et al., 2020, section 2)."""

import math

import keras
from keras import ops

from xmodels.layers.gradients import take_permuted
from xmodels.layers.rows import take_rows

MOST_BUCKETS = 128  # of one hash; more are the pairs of two hashes


class Sorted:
    """Tokens in the order of their buckets and, within these, of their places.

    Args:
        buckets: int (B, H, n, L), those of each round with numbers of their own.
        size: m, which divides L.

    Attributes:
        places: int (B, H, n L), the place in the text of each token in this order.
        order, undo: int (B, H, n L), the permutation of the tokens of all rounds, and the one that undoes it.
        chunk_of: int (B, H, n, L), the chunk of each token in each round.
        count: C, chunks of all rounds.
    """

    def __init__(self, buckets, size: int):
        shape = ops.shape(buckets)
        (batch, heads, rounds, length), self.size, self.buckets = shape, size, buckets
        flat = ops.reshape(buckets, (batch, heads, rounds * length))
        places = ops.tile(ops.arange(length, dtype="int32"), (rounds,))
        order = ops.argsort(flat * length + places, axis=-1)
        self.order, self.undo = order, ops.argsort(order, axis=-1)
        self.places = ops.cast(order % length, "int32")
        self.sorted_buckets = ops.take_along_axis(flat, order, axis=-1)
        self.count = rounds * length // size
        self.chunk_of = ops.reshape(ops.cast(self.undo, "int32") // size, shape)
        self.shape = batch, heads, rounds, length

    def split_into_chunks(self, x):
        """Returns (B, H, n L, ...) -> (B, H, C, m, ...)."""
        return ops.reshape(x, (*self.shape[:2], -1, self.size, *ops.shape(x)[3:]))

    def chunks(self, x):
        """Sorts the tokens of each round: (B, H, L, ...) -> (B, H, C, m, ...)."""
        if keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype)):
            return self.split_into_chunks(take_permuted(x, self.places, self.undo))
        return self.split_into_chunks(take_rows(x, self.places))

    def restore_order(self, x):
        """Returns (B, H, n L, K) in this order -> (B, H, n, L, K) in that of the text."""
        return ops.reshape(take_permuted(x, self.undo, self.order), (*self.shape, ops.shape(x)[-1]))


def factors_of(num_buckets: int) -> tuple[int, ...]:
    """Returns the even numbers of buckets of one hash, or of two whose pairs are the buckets, which may be a few more."""
    if num_buckets <= MOST_BUCKETS:
        return (num_buckets + num_buckets % 2,)
    first = 2 ** math.ceil(math.log2(num_buckets) / 2)
    second = -(-num_buckets // first)
    return first, second + second % 2


def in_line(x):
    """Returns (B, H, C, m, ...) -> (B, H, n L, ...)."""
    return ops.reshape(x, (*ops.shape(x)[:2], -1, *ops.shape(x)[4:]))
