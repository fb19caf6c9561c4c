"""The classifier on top of a recurrent language model (Howard and Ruder, 2018, arXiv 1801.06146, section 3.3)."""

import keras
from keras import ops

from xmodels.layers import pooling
from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer

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


class ConcatPooling(Layer):
    """Reads the last state, the maximum and the mean of all, normalized, through a hidden layer.

    [last; max; mean] -> batch norm -> dropout -> dense with ReLU -> batch norm.

    Args:
        hidden_dim: A.
        dropout: of the pooled states.
        initializer: of the kernel.

    Call arguments:
        states: (B, L, D).
        padding_mask: bool (B, L), True on real tokens.

    Returns:
        (B, A)
    """

    def __init__(self, hidden_dim: int, dropout: float, initializer, **kwargs):
        super().__init__(**kwargs)
        self.pooled_norm, self.hidden_norm = BatchNorm(name="pooled_norm"), BatchNorm(name="hidden_norm")
        self.dropout = Dropout(dropout)
        self.hidden = keras.layers.Dense(hidden_dim, "relu", kernel_initializer=initializer, name="hidden")

    def call(self, states, padding_mask, training=None):
        pools = pooling.last_state, pooling.max_state, pooling.mean_state
        x = ops.concatenate([pool(states, padding_mask) for pool in pools], axis=-1)  # (B, 3 * D)
        x = self.dropout(self.pooled_norm(x, training=training), training=training)
        return self.hidden_norm(self.hidden(x), training=training)
