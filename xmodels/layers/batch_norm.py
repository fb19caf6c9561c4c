"""Normalization by the statistics of a batch, which the answer for a text then depends on in training."""

import keras
from keras import ops

KEEP, EPSILON = 0.9, 1e-5  # PyTorch's, of many batches


class BatchNorm(keras.layers.Layer):
    """Normalizes each dimension by its mean and variance in a batch of training, else by their moving averages (Ioffe and Szegedy,
    2015, algorithms 1 and 2).

    The averages are weights that no optimizer changes. They are means of all batches until there are ten, so that a training of few
    steps forgets its beginning, and then move by a tenth. A batch whose statistics are not finite, whose step is skipped, does not
    change them. Of several devices each normalizes its own rows, and the averages are those of the first.

    Call arguments:
        x: (B, D).

    Returns:
        (B, D)
    """

    def build(self, shape):
        width = (shape[-1],)
        self.gamma = self.add_weight(shape=width, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=width, initializer="zeros", name="beta")
        self.moving_mean = self._add_average(width, "zeros", "moving_mean")
        self.moving_variance = self._add_average(width, "ones", "moving_variance")
        self.num_batches = self._add_average((1,), "zeros", "num_batches")

    def _add_average(self, shape, initializer: str, name: str):
        return self.add_weight(shape=shape, initializer=initializer, name=name, trainable=False, autocast=False)

    def call(self, x, training=None):
        values = ops.cast(x, "float32")
        if training:
            mean, variance = ops.moments(values, axes=[0])
            self._move(mean, variance, ops.shape(x)[0])
        else:
            mean, variance = ops.convert_to_tensor(self.moving_mean), ops.convert_to_tensor(self.moving_variance)
        normal = ops.cast((values - mean) * ops.rsqrt(variance + EPSILON), x.dtype)
        return normal * ops.cast(self.gamma, x.dtype) + ops.cast(self.beta, x.dtype)

    def _move(self, mean, variance, count: int) -> None:
        mean, variance = ops.stop_gradient(mean), ops.stop_gradient(variance) * (count / max(count - 1, 1))
        batches = ops.convert_to_tensor(self.num_batches)
        keep, finite = ops.minimum(KEEP, batches / (batches + 1.0)), ops.all(ops.isfinite(variance))
        for average, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
            before = ops.convert_to_tensor(average)
            average.assign(ops.where(finite, keep * before + (1.0 - keep) * value, before))
        self.num_batches.assign(ops.where(finite, batches + 1.0, batches))
