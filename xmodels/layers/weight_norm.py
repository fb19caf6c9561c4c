"""Weight normalisation (Salimans and Kingma, 2016, arXiv 1602.07868)."""

import keras
from keras import ops


class WeightNormDense(keras.layers.Layer):
    """A Dense layer whose kernel has columns of learnt lengths: w = g v / |v| (equation 2), one g and v for each output.

    Args:
        units: F.
        stddev: of the initial v. Each g begins as the length that such a v has on average, not as that of its own v.

    Call arguments:
        x: (..., D).

    Returns:
        (..., F)
    """

    def __init__(self, units: int, stddev: float, **kwargs):
        super().__init__(**kwargs)
        self.units, self.stddev = units, stddev

    def build(self, x_shape):
        inputs, length = x_shape[-1], self.stddev * x_shape[-1] ** 0.5
        normal, constant = keras.initializers.RandomNormal(stddev=self.stddev), keras.initializers.Constant(length)
        self.direction = self.add_weight(shape=(inputs, self.units), initializer=normal, name="direction")
        self.scale = self.add_weight(shape=(self.units,), initializer=constant, name="scale")
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")

    def call(self, x):
        v = ops.cast(self.direction, "float32")
        kernel = v * (ops.cast(self.scale, "float32") * ops.rsqrt(ops.sum(v * v, axis=0)))
        return ops.matmul(x, ops.cast(kernel, x.dtype)) + ops.cast(self.bias, x.dtype)
