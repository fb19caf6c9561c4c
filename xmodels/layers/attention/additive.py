"""Additive attention (Bahdanau, Cho and Bengio, 2015, arXiv 1409.0473, appendix A.1.2)."""

import keras
from keras import ops

from xmodels.layers.attention.core import HIDDEN


class AdditiveAttention(keras.layers.Layer):
    """The attention weights a_ij = softmax over j of v . tanh(W s_i + U h_j) of a decoder state s_i over source states h_j.

    Args:
        query_dim: Q, the width of s.
        key_dim: K, the width of h.
        align_dim: A, the width of W s and U h.

    Call arguments:
        query: s, (B, Q), or those of T steps at once, (B, T, Q).
        keys: U h, (B, S, A), as `project` returns it, once for all queries.
        bias: (B, S), as `bias_of` returns it.

    Returns:
        float32 (B, S) or (B, T, S), summing to one over the real tokens of the source, and 0 at padding.
    """

    def __init__(self, query_dim: int, key_dim: int, align_dim: int, **kwargs):
        super().__init__(**kwargs)
        self.widths = query_dim, key_dim

        def dense():  # no biases, as in the paper
            initializer = keras.initializers.RandomNormal(stddev=0.001)
            return keras.layers.Dense(align_dim, use_bias=False, kernel_initializer=initializer)

        self.query, self.key = dense(), dense()
        self.scale = self.add_weight(shape=(align_dim,), initializer="zeros", name="scale")  # v

    def build(self, *shapes, **named_shapes):
        for layer, width in zip((self.query, self.key), self.widths, strict=True):
            layer.build((None, width))
        self.built = True

    def project(self, states):
        """Returns U h of the source states h: (B, S, K) -> (B, S, A)."""
        if not self.built:
            self.build()
        return self.key(states)

    def call(self, query, keys, bias):
        if len(query.shape) == 3:
            inner = ops.tanh(ops.expand_dims(self.query(query), 2) + ops.expand_dims(keys, 1))  # (B, T, S, A)
            scores = ops.cast(ops.einsum("btsa,a->bts", inner, ops.cast(self.scale, inner.dtype)), "float32")
            return ops.softmax(scores + ops.expand_dims(ops.cast(bias, "float32"), 1), axis=-1)
        inner = ops.tanh(ops.expand_dims(self.query(query), 1) + keys)  # (B, S, A)
        scores = ops.cast(ops.einsum("bsa,a->bs", inner, ops.cast(self.scale, inner.dtype)), "float32")
        return ops.softmax(scores + ops.cast(bias, "float32"), axis=-1)


def bias_of(padding_mask):
    """Returns what is added to scores before the softmax: 0 at real tokens, `HIDDEN` at padding: bool (B, S) -> float (B, S)."""
    return ops.where(ops.cast(padding_mask, "bool"), 0.0, HIDDEN)
