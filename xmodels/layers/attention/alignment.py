"""The scores by which a recurrent decoder looked at its source before the Transformer, each as one layer of attention weights."""

import keras
from keras import ops

from xmodels.layers.attention.additive import AdditiveAttention
from xmodels.layers.attention.core import HIDDEN

CONTENT, LOCATION, GENERAL, DOT, SCALED = "content", "location", "general", "dot", "scaled_dot"
SCORES = ("additive", CONTENT, LOCATION, GENERAL, DOT, SCALED)


def alignment_of(score: str, query_dim: int, key_dim: int, align_dim: int, num_places: int, **kwargs):
    """Returns the layer of a score, one of `SCORES`; all of them are called alike.

    Args:
        query_dim: Q, the width of the states of the decoder.
        key_dim: K, the width of those of the source.
        align_dim: the width of the inner layer of "additive".
        num_places: places of a source that "location" knows.
        kwargs: of the layer.

    Raises:
        ValueError: the score is unknown, or does not suit the widths.
    """
    if score == "additive":
        return AdditiveAttention(query_dim, key_dim, align_dim, **kwargs)
    return ProductAttention(score, query_dim, key_dim, num_places, **kwargs)


class ProductAttention(keras.layers.Layer):
    """The attention weights a_ij = softmax over j of a score of a decoder state s_i (Q,) and a source state h_j (K,):

    - "content": b cos(s, h), with a learnt strength b that begins at 1 (Graves et al., 2014, arXiv 1410.5401, equations 5 and 6).
    - "location": the j-th number of W s; places from `num_places` on have no weight (Luong et al., 2015, section 3.1).
    - "general": s W h (Luong et al., 2015, arXiv 1508.04025, section 3.1).
    - "dot": s h (Luong et al., 2015, section 3.1).
    - "scaled_dot": s h / sqrt(Q) (Vaswani et al., 2017, equation 1).

    Where h is twice as wide as s, as that of two directions, "content" and the dots take the sum of its halves for h.

    Args:
        score: one of these names.
        query_dim, key_dim: Q and K.
        num_places: rows of W of "location".

    Call arguments:
        query: s, (B, Q), or those of T steps at once, (B, T, Q).
        keys: (B, S, Q), as `project` returns it, once for all queries.
        bias: (B, S), as `additive.bias_of` returns it.

    Returns:
        float32 (B, S) or (B, T, S), summing to one over the real tokens of the source, and 0 at padding.

    Raises:
        ValueError: the score is unknown, or K is neither Q nor twice as much where both are compared without a matrix.
    """

    def __init__(self, score: str, query_dim: int, key_dim: int, num_places: int = 1, **kwargs):
        super().__init__(**kwargs)
        if score not in SCORES[1:]:
            raise ValueError(f"`score` must be one of {', '.join(SCORES)}. Received: {score!r}.")
        if score not in (LOCATION, GENERAL) and key_dim not in (query_dim, 2 * query_dim):
            raise ValueError(
                f"`score` {score!r} compares states without a matrix, so those of the source must be as wide as those of the decoder, "
                f"or twice as wide. Received: {key_dim} and {query_dim}."
            )
        self.score, self.query_dim, self.num_places = score, query_dim, num_places
        if score == GENERAL:
            self.matrix = self.add_weight(shape=(key_dim, query_dim), initializer="glorot_uniform", name="matrix")
        if score == LOCATION:
            self.matrix = self.add_weight(shape=(num_places, query_dim), initializer="glorot_uniform", name="matrix")
        if score == CONTENT:
            self.strength = self.add_weight(shape=(), initializer="ones", name="strength")

    def build(self, *shapes, **named_shapes):
        self.built = True

    def project(self, states):
        """Returns what queries are multiplied with: the source states h, (B, S, K) -> (B, S, Q)."""
        if self.score == GENERAL:
            return ops.matmul(states, ops.cast(self.matrix, states.dtype))
        if self.score == LOCATION:
            batch, length = ops.shape(states)[:2]
            rows = ops.take(self.matrix, ops.minimum(ops.arange(length), self.num_places - 1), axis=0)  # (S, Q)
            return ops.cast(ops.broadcast_to(ops.expand_dims(rows, 0), (batch, length, self.query_dim)), states.dtype)
        if states.shape[-1] != self.query_dim:
            ahead, behind = ops.split(states, 2, axis=-1)
            states = ahead + behind
        return unit(states) if self.score == CONTENT else states

    def call(self, query, keys, bias):
        if self.score == CONTENT:
            query = unit(query)
        several = len(query.shape) == 3
        scores = ops.cast(ops.einsum("btq,bsq->bts" if several else "bq,bsq->bs", query, keys), "float32")
        if self.score == SCALED:
            scores = scores / self.query_dim**0.5
        if self.score == CONTENT:
            scores = scores * ops.cast(self.strength, "float32")
        bias = ops.cast(bias, "float32")
        if self.score == LOCATION:
            known = ops.arange(ops.shape(keys)[1]) < self.num_places
            bias = ops.where(ops.expand_dims(known, 0), bias, HIDDEN)
        return ops.softmax(scores + (ops.expand_dims(bias, 1) if several else bias), axis=-1)


def unit(x):
    """Returns vectors of length 1 in the directions of x (..., D); zeros stay zeros."""
    square = ops.sum(ops.square(ops.cast(x, "float32")), axis=-1, keepdims=True)
    return ops.cast(ops.cast(x, "float32") * ops.rsqrt(ops.maximum(square, 1e-12)), x.dtype)
