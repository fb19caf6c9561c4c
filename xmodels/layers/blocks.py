"""Residual blocks around a built mixer and a built feed-forward layer."""

import keras

from xmodels.layers.dropout import Dropout


class PostNormBlock(keras.layers.Layer):
    """Normalises after each residual sum, as the first Transformer and BERT do.

    Call arguments:
        x: (B, L, D).
        attention_mask: passed to the mixer.

    Returns:
        (B, L, D)
    """

    def __init__(self, mixer, feedforward, dropout: float, epsilon: float = 1e-12, **kwargs):
        super().__init__(**kwargs)
        self.mixer = mixer
        self.feedforward = feedforward
        self.mixer_norm = keras.layers.LayerNormalization(epsilon=epsilon, name="mixer_norm")
        self.feedforward_norm = keras.layers.LayerNormalization(epsilon=epsilon, name="feedforward_norm")
        self.dropout = Dropout(dropout)

    def call(self, x, attention_mask=None, training=None):
        mixed = self.mixer(x, attention_mask=attention_mask, training=training)
        x = self.mixer_norm(x + self.dropout(mixed, training=training))
        changed = self.feedforward(x)
        return self.feedforward_norm(x + self.dropout(changed, training=training))
