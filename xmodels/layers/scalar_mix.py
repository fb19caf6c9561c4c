"""A learned weighted mean of the layers of a network (Peters et al., 2018, equation 1)."""

import keras
from keras import ops


class ScalarMix(keras.layers.Layer):
    """gamma times the sum of the layers weighted by a softmax; initially their mean.

    Args:
        count: the number of layers; None for that of the first call.

    Call arguments:
        layers: `count` tensors (B, L, D).

    Returns:
        (B, L, D)
    """

    def __init__(self, count: int | None = None, **kwargs):
        super().__init__(**kwargs)
        if count is not None:
            self._create(count)

    def build(self, input_shape):
        if not self.built:
            self._create(len(input_shape))

    def _create(self, count: int) -> None:
        self.shares = self.add_weight(shape=(count,), initializer="zeros", name="shares")
        self.gamma = self.add_weight(shape=(1,), initializer="ones", name="gamma")
        self.built = True

    def call(self, layers):
        shares = ops.softmax(ops.cast(self.shares, "float32"))  # (N,)
        mixed = ops.einsum("n,nbld->bld", shares, ops.cast(ops.stack(layers), "float32"))
        return ops.cast(ops.cast(self.gamma, "float32") * mixed, self.compute_dtype)
