"""Multi-head attention (Vaswani et al., 2017, section 3.2.2)."""

import dataclasses

from keras import ops

from xmodels.layers.attention.core import attend, attention_probabilities, write_at
from xmodels.layers.attention.visible import Visible
from xmodels.layers.mixers import Mixer


class MultiHeadAttention(Mixer):
    """Softmax attention of H heads over all tokens: of a text to itself, or to a context.

    Decoding keeps the keys and values of all tokens, (B, S, H, K) each.
    """

    honours = frozenset(field.name for field in dataclasses.fields(Visible))

    def mix(self, query, key, value, visible, training=None):
        return attend(query, key, value, visible, dropout=self.dropout, training=training)

    def probabilities(self, x, visible=None):
        length = ops.shape(x)[1]
        return attention_probabilities(self.query(x), self.key(x), self.honoured(visible).dense(length, length))

    def start(self, batch, length: int):
        shape = (batch, length, self.num_heads, self.head_dim)
        return ops.zeros(shape, self.compute_dtype), ops.zeros(shape, self.compute_dtype)

    def step(self, x, past, position):
        past = tuple(write_at(old, new, position) for old, new in zip(past, self.project(x), strict=True))
        positions = position + ops.arange(ops.shape(x)[1], dtype="int32")  # (L,)
        seen = Visible(causal=True).dense(positions, ops.shape(past[0])[1])  # (1, 1, L, S)
        return self.merge(attend(self.query(x), *past, seen)), past
