"""The classifier on top of a recurrent language model (Howard and Ruder, 2018, arXiv 1801.06146, section 3.3)."""

import keras
from keras import ops

from xmodels.layers import pooling
from xmodels.layers.batch_norm import BatchNorm
from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer


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
