"""Rows of tensors by their places."""

import math

from keras import ops


def take_rows(x, places):
    """Returns the rows at `places` of each matrix: (..., L, K) and int (..., N) -> (..., N, K).

    `ops.take_along_axis` takes single numbers: under TensorFlow it makes an index for each of them and transposes x twice. Here whole
    rows of one long matrix are copied.

    Args:
        places: int, from -L on; negative ones count from the end, and those behind it are the last row, so none is of another
            matrix. Its dimensions before the last are those of x, or broadcast to them.
    """
    (*leading, length, width), count = ops.shape(x), ops.shape(places)[-1]
    places = ops.broadcast_to(ops.cast(places, "int32"), (*leading, count))
    matrices = math.prod(leading)
    first = ops.reshape(ops.arange(matrices, dtype="int32") * length, (*leading, 1))
    rows = ops.minimum(ops.where(places < 0, places + length, places), length - 1) + first
    return ops.reshape(ops.take(ops.reshape(x, (-1, width)), rows, axis=0), (*leading, count, width))
