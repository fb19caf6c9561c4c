"""Residual blocks around a built mixer and a built feed-forward layer."""

import keras

from xmodels.layers.dropout import Dropout
from xmodels.layers.rematerialization import is_wanted, recompute


class Block(keras.layers.Layer):
    """What networks are stacked of. Inside `rematerialized()` it keeps nothing but its input for the gradient.

    Call arguments:
        x: (B, L, D). All others by name.
    """

    def __call__(self, x, **others):
        if is_wanted() and others.get("training") and self.built:
            return recompute(super().__call__, x, **others)
        return super().__call__(x, **others)


class PostNormBlock(Block):
    """Normalises after each residual sum, as the first Transformer and BERT do.

    Call arguments:
        x: (B, L, D).
        attention_mask: passed to the mixer.
        context: (B, S, D), passed to the mixer where it is given: what the tokens at hand look at.

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

    def call(self, x, attention_mask=None, context=None, training=None):
        others = {} if context is None else {"context": context}
        mixed = self.mixer(x, attention_mask=attention_mask, training=training, **others)
        x = self.mixer_norm(x + self.dropout(mixed, training=training))
        changed = self.feedforward(x, training=training)
        return self.feedforward_norm(x + self.dropout(changed, training=training))

    def look(self, x, attention_mask=None):
        """Where the mixer looks: its attention map for x, float32 (B, H, L, L), for pictures."""
        return self.mixer.probabilities(x, attention_mask)

    def step(self, x, past, position, attention_mask):
        """One step of decoding; arguments and results as of the mixer's `step`."""
        mixed, past = self.mixer.step(x, past, position, attention_mask)
        x = self.mixer_norm(x + mixed)
        return self.feedforward_norm(x + self.feedforward(x)), past


class PreNormBlock(Block):
    """Normalises what enters each residual branch (Xiong et al., 2020; GPT-2). The stack needs one norm more behind it.

    Call arguments and results as of `PostNormBlock`.
    """

    def __init__(self, mixer, feedforward, dropout: float, epsilon: float = 1e-6, **kwargs):
        super().__init__(**kwargs)
        self.mixer = mixer
        self.feedforward = feedforward
        self.mixer_norm = keras.layers.LayerNormalization(epsilon=epsilon, name="mixer_norm")
        self.feedforward_norm = keras.layers.LayerNormalization(epsilon=epsilon, name="feedforward_norm")
        self.dropout = Dropout(dropout)

    def call(self, x, attention_mask=None, training=None):
        mixed = self.mixer(self.mixer_norm(x), attention_mask=attention_mask, training=training)
        x = x + self.dropout(mixed, training=training)
        changed = self.feedforward(self.feedforward_norm(x), training=training)
        return x + self.dropout(changed, training=training)

    def look(self, x, attention_mask=None):
        """Where the mixer looks, as of `PostNormBlock`."""
        return self.mixer.probabilities(self.mixer_norm(x), attention_mask)

    def step(self, x, past, position, attention_mask):
        """One step of decoding; arguments and results as of the mixer's `step`."""
        mixed, past = self.mixer.step(self.mixer_norm(x), past, position, attention_mask)
        x = x + mixed
        return x + self.feedforward(self.feedforward_norm(x)), past
