"""Attention with relative positions over a memory of past states (Dai et al., 2019, arXiv 1901.02860, section 3.3)."""

import keras
from keras import ops

from xmodels.layers.attention.core import HIDDEN, merge_heads, split_heads
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import Initialization
from xmodels.layers.layer import Layer


class RelativeAttention(Layer):
    """Attention of N queries to K = M + N states: M of the memory, and N of the queries' own segment.

    The score of query i and key j, at the distance i + M - j, is ((q_i + u) k_j + (q_i + v) W_r r_distance) / sqrt(K'), with
    K' the width of a head. The projections have no biases.

    Args:
        num_heads: H.
        head_dim: K'; H * K' need not equal D.
        hidden_dim: D.
        dropout: of the attention probabilities.
        initialization: of the kernels.

    Call arguments:
        x: (B, N, D), from which the queries are computed.
        states: (B, K, D), from which keys and values are computed; the last N are `x`.
        signal: (K, D), the encodings of the distances K - 1, ..., 0.
        content_bias, position_bias: u and v, (H, K') each.
        visible: a `Visible` over the K states, of which the queries are the last N.

    Returns:
        (B, N, D)
    """

    def __init__(
        self, num_heads: int, head_dim: int, hidden_dim: int, dropout: float, initialization: Initialization, **kwargs
    ):
        super().__init__(**kwargs)
        self.scale = head_dim**-0.5
        self.query, self.key, self.value = (
            split_heads(num_heads, head_dim, name, initialization, use_bias=False) for name in ("query", "key", "value")
        )
        self.position = keras.layers.EinsumDense(
            "kd,dhe->khe", (num_heads, head_dim), kernel_initializer=initialization.inner(), name="position"
        )
        self.merge = merge_heads(hidden_dim, initialization, use_bias=False)
        self.dropout = Dropout(dropout)

    def call(self, x, states, signal, content_bias, position_bias, visible=None, training=None):
        place = self.position(signal)  # (K, H, K')
        query, key, value = self.query(x), self.key(states), self.value(states)
        return self.attend(query, key, value, place, content_bias, position_bias, visible, training)

    def step(self, x, past, place, content_bias, position_bias, visible):
        """Decodes like `call`, with cached keys and values of the memory instead of its states.

        Args:
            past: keys and values of M states, (B, M, H, K') each.
            place: the distances M + N - 1, ..., 0 projected by `position`: (M + N, H, K'), or (B, M + N, H, K').

        Returns:
            (B, N, D), and the keys and values of the last M states.
        """
        parts = zip(past, (self.key(x), self.value(x)), strict=True)
        key, value = (ops.concatenate(part, axis=1) for part in parts)
        mixed = self.attend(self.query(x), key, value, place, content_bias, position_bias, visible)
        return mixed, (key[:, x.shape[1] :], value[:, x.shape[1] :])

    def attend(self, query, key, value, place, content_bias, position_bias, visible=None, training=None):
        """Attends and merges the heads: queries (B, N, H, K'), keys and values (B, K, H, K') -> (B, N, D)."""
        scores = self.scores(query, key, place, content_bias, position_bias)
        attention_mask = None
        if visible is not None:
            queries, keys = ops.shape(query)[1], ops.shape(key)[1]
            positions = keys - queries + ops.arange(queries, dtype="int32")  # (N,)
            attention_mask = visible.dense(positions, keys)
        return self.merge(self.mix(probabilities(scores, attention_mask), value, training))

    def mix(self, shares, value, training=None):
        """Mixes values: probabilities `shares` (B, H, N, K), after dropout, and values (B, K, H, K') -> (B, N, H, K')."""
        shares = self.dropout(ops.cast(shares, value.dtype), training=training)
        return ops.einsum("bhls,bshk->blhk", shares, value)

    def scores(self, query, key, place, content_bias, position_bias):
        """Returns the scores before masking, float32 (B, H, N, K). Those of keys after the query are meaningless."""
        distant = relative_shift(by_distance(query, place, position_bias))
        return ops.cast((by_content(query, key, content_bias) + distant) * self.scale, "float32")


def by_content(query, key, bias):
    """Returns dot products (B, H, N, K) of queries (B, N, H, K') plus a bias (H, K') with keys (B, K, H, K')."""
    return ops.einsum("blhk,bshk->bhls", query + ops.cast(bias, query.dtype), key)


def by_distance(query, place, bias):
    """Returns dot products (B, H, N, R) of queries (B, N, H, K') plus a bias (H, K') with R distances, (R, H, K') or (B, R, H,
    K')."""
    rows = "bshk" if len(place.shape) == 4 else "shk"
    return ops.einsum(f"blhk,{rows}->bhls", query + ops.cast(bias, query.dtype), place)


def probabilities(scores, attention_mask=None):
    """Returns softmax of float32 scores (B, H, N, K) over the keys where `attention_mask`, bool, broadcastable to them, is
    True."""
    return ops.softmax(scores if attention_mask is None else ops.where(attention_mask, scores, HIDDEN), axis=-1)


def relative_shift(x):
    """Turns scores by distance into scores by key: y[i, j] = x[i, j + N - 1 - i], (B, H, N, K), valid for keys up to query i.

    Row i moves to the left by N - 1 - i: a column is put in front, and the numbers are reshaped with an offset (appendix B).
    """
    batch, heads, queries, keys = ops.shape(x)
    x = ops.pad(x, ((0, 0), (0, 0), (0, 0), (1, 0)))
    x = ops.reshape(x, (batch, heads, keys + 1, queries))
    return ops.reshape(part(x, 2, 1, keys), (batch, heads, queries, keys))


def part(x, axis: int, first: int, length):
    """Returns `length` entries of an axis from `first` on. TensorFlow's gradient of `x[..., first:]` is eight times as slow."""
    start, shape = [0] * len(x.shape), list(ops.shape(x))
    start[axis], shape[axis] = first, length
    return ops.slice(x, start, shape)
