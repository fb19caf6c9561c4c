"""Axial position embeddings: positions as places in a grid (Kitaev et al., 2020; Ho et al., 2019)."""

import keras
from keras import ops

from xmodels.layers.layer import Layer


class AxialPositions(Layer):
    """The embedding of position p is row p // n2 of one table beside row p % n2 of another.

    The tables have n1 * d1 + n2 * d2 numbers, in place of L * D.

    Args:
        shape: (n1, n2). There are n1 * n2 positions.
        widths: (d1, d2), which sum to D.
        stddev: of the initial values.

    Call arguments:
        positions: int (...).

    Returns:
        (..., D)
    """

    def __init__(self, shape: tuple[int, ...], widths: tuple[int, ...], stddev: float, **kwargs):
        super().__init__(**kwargs)
        self.rows, self.columns = (
            keras.layers.Embedding(count, width, keras.initializers.RandomNormal(stddev=stddev), name=name)
            for count, width, name in zip(shape, widths, ("rows", "columns"), strict=True)
        )
        self.num_columns = shape[1]

    def call(self, positions):
        return ops.concatenate(
            [self.rows(positions // self.num_columns), self.columns(positions % self.num_columns)], axis=-1
        )  # fmt: skip
