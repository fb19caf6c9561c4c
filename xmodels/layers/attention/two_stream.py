"""Two-stream attention with relative positions and segments (Yang et al., 2019, arXiv 1906.08237, sections 2.3 to 2.5)."""

from keras import ops

from xmodels.layers.attention.relative import (
    RelativeAttention,
    by_content,
    by_distance,
    part,
    probabilities,
    relative_shift,
)
from xmodels.layers.initialization import Initialization
from xmodels.layers.rows import take_rows


class TwoStreamAttention(RelativeAttention):
    """Bidirectional attention of N content states and of P targets (the query stream) to K = M + N states.

    The score of query i and key j, at the distance i + M - j, which may be negative, is ((q_i + u) k_j + (q_i + v) W_r
    r_distance + (q_i + s) e_ij) / sqrt(K'), with K' the width of a head. e_ij is one of two learned vectors, one for tokens of the
    same segment and one for others. Keys and values come from content states only; both streams share all weights.

    Args:
        num_heads, head_dim, hidden_dim, dropout, initialization: as in `RelativeAttention`.

    Call arguments:
        content: (B, N, D), the states of the content stream.
        states: (B, K, D), from which keys and values are computed; the last N are `content`.
        signal: (K + N - 1, D), the encodings of the distances K - 1, ..., -N + 1; with `is_reversed` (2 * (K + N - 1), D), those of
            the opposite distances after them.
        biases: `content_bias`, `position_bias`, `segment_bias`, (H, K') each.
        attention_mask: bool (B, 1, N, K), True where a token may attend to a key.
        differs: bool (B, N, K), True where two tokens are of different segments; None without segments.
        is_reversed: int (B,), 1 for rows that read backwards; None if there are none.
        targets: (B, P, D), the states of the query stream; None without one.
        target_positions: int (B, P), the position of each target.
        target_attention_mask: bool (B, 1, P, K), as `attention_mask` for targets. A target without any visible key gets zeros.

    Returns:
        (B, N, D) of the content stream, and (B, P, D) of the query stream or None.
    """

    def __init__(
        self, num_heads: int, head_dim: int, hidden_dim: int, dropout: float, initialization: Initialization, **kwargs
    ):
        super().__init__(num_heads, head_dim, hidden_dim, dropout, initialization, **kwargs)
        shape = (2, num_heads, head_dim)
        self.segment = self.add_weight(shape=shape, initializer=initialization.inner(), name="segment")

    def call(
        self, content, states, signal, biases, attention_mask, differs=None, is_reversed=None, targets=None, target_positions=None,
        target_attention_mask=None, training=None,
    ):  # fmt: skip
        shares, value, keys = self.shares(states, signal, biases, is_reversed), self.value(states), ops.shape(states)[1]
        taken = shares(self.query(content), lambda x: part(relative_shift(x), -1, 0, keys), differs, attention_mask)
        mixed = self.merge(self.mix(taken, value, training))
        if targets is None:
            return mixed, None
        if differs is not None:
            differs = take_rows(differs, target_positions)  # (B, P, K)

        def shift(x):
            return shift_rows(x, target_positions, ops.shape(content)[1], keys)

        taken = shares(self.query(targets), shift, differs, target_attention_mask)
        # If all keys are masked, the softmax is spread over the masked ones, which include the token of the target.
        taken = taken * ops.cast(ops.any(target_attention_mask, axis=-1, keepdims=True), taken.dtype)
        return mixed, self.merge(self.mix(taken, value, training))

    def shares(self, states, signal, biases, is_reversed=None):
        """Returns a function of (query, shift, differs, attention_mask) that computes attention probabilities, (B, H, rows, K).

        `query` is (B, rows, H, K'); `shift` turns scores by distance into scores by key.
        """
        key, place = self.key(states), self.places(signal, is_reversed)

        def taken(query, shift, differs, attention_mask):
            scores = by_content(query, key, biases["content_bias"])
            scores = scores + shift(by_distance(query, place, biases["position_bias"]))
            if differs is not None:
                scores = scores + self.of_segments(query, differs, biases["segment_bias"])
            return probabilities(ops.cast(scores * self.scale, "float32"), attention_mask)

        return taken

    def content_probabilities(self, content, signal, biases, attention_mask, differs=None, is_reversed=None):
        """Returns the attention probabilities of the content stream without a memory, float32 (B, H, N, N), for pictures."""
        length = ops.shape(content)[1]
        shares = self.shares(content, signal, biases, is_reversed)
        return shares(self.query(content), lambda x: part(relative_shift(x), -1, 0, length), differs, attention_mask)

    def places(self, signal, is_reversed=None):
        """Returns W_r r of each distance: (R, H, K'), or (B, R, H, K') if rows differ in direction."""
        place = self.position(signal)
        if is_reversed is None:
            return place
        both = ops.reshape(place, (2, -1, *place.shape[1:]))  # (2, R, H, K')
        direction = ops.one_hot(ops.cast(is_reversed, "int32"), 2, dtype=both.dtype)  # (B, 2)
        return ops.einsum("bd,drhk->brhk", direction, both)

    def of_segments(self, query, differs, bias):
        """Returns the scores (q_i + s) e_ij, (B, H, N, K)."""
        query = query + ops.cast(bias, query.dtype)
        same, other = ops.split(ops.einsum("blhk,shk->bhls", query, ops.cast(self.segment, query.dtype)), 2, axis=-1)
        return ops.where(ops.expand_dims(differs, 1), other, same)


def shift_rows(x, positions, length: int, keys: int):
    """Turns scores by distance into scores by key, for queries at any positions: y[i, j] = x[i, j + N - 1 - p_i].

    Args:
        x: (B, H, P, K + N - 1).
        positions: int (B, P), the position p of each query, below N.
        length, keys: N and K.

    Returns:
        (B, H, P, K)
    """
    columns = ops.arange(keys, dtype="int32") + length - 1 - ops.expand_dims(positions, -1)  # (B, P, K)
    columns = ops.broadcast_to(ops.expand_dims(columns, 1), (*ops.shape(x)[:-1], keys))
    return ops.take_along_axis(x, columns, axis=-1)
