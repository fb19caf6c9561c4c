"""Residual blocks of a decoder: self-attention, attention to an encoded source, feed-forward."""

import functools

import keras

from xmodels.layers.blocks import Block
from xmodels.layers.dropout import Dropout


class PostNormDecoderBlock(Block):
    """Normalises after each residual sum (Vaswani et al., 2017, section 3.1).

    Call arguments:
        x: (B, T, D).
        source: (B, S, D), the encoded source.
        attention_mask: bool, broadcastable to (B, H, T, T).
        source_mask: bool, broadcastable to (B, H, T, S).

    Returns:
        (B, T, D)
    """

    def __init__(self, mixer, cross, feedforward, dropout: float, epsilon: float = 1e-6, **kwargs):
        super().__init__(**kwargs)
        self.mixer, self.cross, self.feedforward = mixer, cross, feedforward
        self.mixer_norm, self.cross_norm, self.feedforward_norm = (
            keras.layers.LayerNormalization(epsilon=epsilon, name=f"{part}_norm")
            for part in ("mixer", "cross", "feedforward")
        )
        self.dropout = Dropout(dropout)

    def call(self, x, source, attention_mask=None, source_mask=None, training=None):
        mixed = self.mixer(x, attention_mask=attention_mask, training=training)
        x = self.mixer_norm(x + self.dropout(mixed, training=training))
        return self._rest(x, self._seeing(source, source_mask, training), training)

    def step(self, x, past, position, attention_mask, source, source_mask):
        """One step of decoding; `source` as `cross.project` gives it, `past` and what comes back as of the mixer's `step`."""
        mixed, past = self.mixer.step(x, past, position, attention_mask)
        look = functools.partial(self.cross.look, projected=source, attention_mask=source_mask)
        return self._rest(self.mixer_norm(x + mixed), look, False), past

    def _seeing(self, source, source_mask, training):
        return functools.partial(self.cross, attention_mask=source_mask, context=source, training=training)

    def _rest(self, x, look, training):
        x = self.cross_norm(x + self.dropout(look(x), training=training))
        changed = self.feedforward(x, training=training)
        return self.feedforward_norm(x + self.dropout(changed, training=training))


class PreNormDecoderBlock(PostNormDecoderBlock):
    """Normalises what enters each residual branch (Xiong et al., 2020). The source comes from a normalised encoder."""

    def call(self, x, source, attention_mask=None, source_mask=None, training=None):
        mixed = self.mixer(self.mixer_norm(x), attention_mask=attention_mask, training=training)
        x = x + self.dropout(mixed, training=training)
        return self._rest(x, self._seeing(source, source_mask, training), training)

    def step(self, x, past, position, attention_mask, source, source_mask):
        mixed, past = self.mixer.step(self.mixer_norm(x), past, position, attention_mask)
        look = functools.partial(self.cross.look, projected=source, attention_mask=source_mask)
        return self._rest(x + mixed, look, False), past

    def _rest(self, x, look, training):
        x = x + self.dropout(look(self.cross_norm(x)), training=training)
        changed = self.feedforward(self.feedforward_norm(x), training=training)
        return x + self.dropout(changed, training=training)
