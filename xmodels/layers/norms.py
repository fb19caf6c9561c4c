"""Layer normalization (Ba et al., 2016, arXiv 1607.06450)."""

import functools
from collections.abc import Callable

import keras
from keras import ops

from xmodels.layers.activations import widened
from xmodels.layers.compilation import compiled_form, is_worth_compiling


class LayerNorm(keras.layers.LayerNormalization):
    """That of Keras. Inside `compiled` a large one is two compiled loops, one of which is its gradient.

    There it keeps the mean and the deviation of each position for the gradient, and no further tensor of the size of its input.
    """

    def call(self, inputs):
        if self.axis != [-1] or not self.scale or self.rms_scaling or not is_worth_compiling(inputs.shape):
            return super().call(inputs)
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        # A cast gives the tensor of a variable, which is what a custom gradient takes.
        weights = [ops.cast(each, each.dtype) for each in ((self.gamma, self.beta) if self.center else (self.gamma,))]
        both_ways = _both_ways(self.epsilon, self.center, self.compute_dtype)
        return ops.reshape(_normalized(both_ways, rows, *weights), inputs.shape)


def _normalized(both_ways: tuple[Callable, Callable], rows, scale, *shift):
    """Returns rows (N, D), normalized, times `scale` (D,) plus `shift` (D,) if there is one."""
    forward, backward = (compiled_form(each) for each in both_ways)

    @ops.custom_gradient
    def normalized(rows, scale, *shift):
        found, mean, inverse = forward(rows, scale, *shift)

        def gradient(*args, upstream=None):
            return backward(args[-1] if upstream is None else upstream, rows, mean, inverse, scale)

        return found, gradient

    return normalized(rows, scale, *shift)


@functools.cache
def _both_ways(epsilon: float, center: bool, dtype: str) -> tuple[Callable, Callable]:
    """Returns the function of a norm and that of its gradient, the same ones for all norms that compute the same.

    Sums of rows are products with a vector: XLA adds up the numbers of a row one by one, but multiplies several at a time.
    """

    def forward(rows, scale, *shift):
        x = widened(rows)
        average = ops.full((x.shape[1], 1), 1 / x.shape[1], x.dtype)
        mean = ops.matmul(x, average)  # (N, 1)
        centered = x - mean
        inverse = ops.rsqrt(ops.matmul(centered * centered, average) + epsilon)  # (N, 1)
        found = centered * inverse * ops.cast(scale, x.dtype)
        return ops.cast(found + ops.cast(shift[0], x.dtype) if center else found, dtype), mean, inverse

    def backward(upstream, rows, mean, inverse, scale):
        above, x, weights = widened(upstream), widened(rows), ops.cast(scale, mean.dtype)
        column = ops.expand_dims(weights / x.shape[1], 1)
        normal = (x - mean) * inverse
        product = above * normal
        slope = (above * weights - ops.matmul(above, column) - normal * ops.matmul(product, column)) * inverse
        sums = [ops.cast(ops.sum(each, axis=0), scale.dtype) for each in ([product, above] if center else [product])]
        return ops.cast(slope, rows.dtype), *sums

    return forward, backward
