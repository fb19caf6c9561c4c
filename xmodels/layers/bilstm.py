"""Stacked bidirectional LSTMs over the states of another network (Devlin et al., 2018, section 5.3)."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer


class BiLstm(Layer):
    """Stacked bidirectional LSTMs, with dropout on the input of each. Padding, on either side, does not affect the states.

    Args:
        hidden_dim: units of each direction.
        num_layers: number of bidirectional layers.
        dropout: rate.

    Call arguments:
        x: (B, L, D).
        padding_mask: bool (B, L), True on real tokens.

    Returns:
        (B, L, 2 * hidden_dim)
    """

    def __init__(self, hidden_dim: int, num_layers: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.forward = [self._direction(hidden_dim, False, i) for i in range(num_layers)]
        self.backward = [self._direction(hidden_dim, True, i) for i in range(num_layers)]
        self.dropout = Dropout(dropout)

    def _direction(self, hidden_dim: int, is_backward: bool, index: int):
        name = f"{'backward' if is_backward else 'forward'}_{index}"
        # cuDNN's kernel requires padding on the right, and XLA cannot compile it.
        return keras.layers.LSTM(
            hidden_dim, return_sequences=True, go_backwards=is_backward, use_cudnn=False, name=name
        )

    def call(self, x, padding_mask, training=None):
        mask = ops.cast(padding_mask, "bool")
        for ahead, behind in zip(self.forward, self.backward, strict=True):
            x = self.dropout(x, training=training)
            backwards = ops.flip(behind(x, mask=mask), axis=1)  # its outputs are in reversed order
            x = ops.concatenate([ahead(x, mask=mask), backwards], axis=-1)
        return x
