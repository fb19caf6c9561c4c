"""Poolings of the states of a text into one vector, for any network.

Padding is ignored and may be on either side; special tokens count like all others, as in Sentence-BERT (Reimers and Gurevych,
2019, section 3). A row that is all padding, such as a missing choice, gives finite numbers.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from xmodels.layers.poolings import parts
from xmodels.layers.rows import take_rows

HIDDEN = -1e9  # replaces the states and scores of padding


def first_state(states, padding_mask):
    """Returns the state of the first real token: (B, L, D) -> (B, D). `padding_mask` is bool (B, L), True on real tokens."""
    return _at(states, ops.argmax(ops.cast(padding_mask, "int32"), axis=1))


def last_state(states, padding_mask):
    """Returns the state of the last real token: (B, L, D) -> (B, D)."""
    places = ops.arange(ops.shape(states)[1], dtype="int32")  # (L,)
    return _at(states, ops.max(ops.where(ops.cast(padding_mask, "bool"), places, 0), axis=1))


def mean_state(states, padding_mask):
    """Returns the mean of the states of the real tokens: (B, L, D) -> (B, D). It is computed in float32."""
    real = ops.expand_dims(ops.cast(padding_mask, "float32"), -1)  # (B, L, 1)
    total = ops.sum(ops.cast(states, "float32") * real, axis=1)  # (B, D)
    return ops.cast(total / ops.maximum(ops.sum(real, axis=1), 1.0), states.dtype)


def mean_sqrt_len_state(states, padding_mask):
    """Returns the sum of the states of the real tokens divided by the square root of their number: (B, L, D) -> (B, D)
    (sentence-transformers)."""
    real = ops.expand_dims(ops.cast(padding_mask, "float32"), -1)  # (B, L, 1)
    total = ops.sum(ops.cast(states, "float32") * real, axis=1)  # (B, D)
    return ops.cast(total / ops.sqrt(ops.maximum(ops.sum(real, axis=1), 1.0)), states.dtype)


def weighted_mean_state(states, padding_mask):
    """Returns the mean of the states weighted by position, 1 for the first real token, 2 for the second, ...: (B, L, D) -> (B,
    D) (Muennighoff, 2022, section 3)."""
    real = ops.cast(padding_mask, "float32")
    weights = ops.expand_dims(ops.cumsum(real, axis=1) * real, -1)  # (B, L, 1)
    total = ops.sum(ops.cast(states, "float32") * weights, axis=1)  # (B, D)
    return ops.cast(total / ops.maximum(ops.sum(weights, axis=1), 1.0), states.dtype)


def max_state(states, padding_mask):
    """Returns the maximum over the real tokens, in each dimension: (B, L, D) -> (B, D); 0 for rows without real tokens."""
    real = ops.expand_dims(ops.cast(padding_mask, "bool"), -1)  # (B, L, 1)
    largest = ops.max(ops.where(real, ops.cast(states, "float32"), HIDDEN), axis=1)  # (B, D)
    return ops.cast(ops.where(ops.any(real, axis=1), largest, 0.0), states.dtype)


STATELESS = {
    "first": first_state,
    "last": last_state,
    "mean": mean_state,
    "max": max_state,
    "mean_sqrt_len": mean_sqrt_len_state,
    "weighted_mean": weighted_mean_state,
}  # poolings without weights


class AttentionPooling(keras.layers.Layer):
    """The mean of the states of real tokens, weighted by a softmax of their dot products with a learned query (Yang et al.,
    2016, equations 5 to 7, without their hidden layer).

    The query is initialized to zeros, so that the layer starts as `mean_state`.

    Call arguments:
        states: (B, L, D).
        padding_mask: bool (B, L), True on real tokens.

    Returns:
        (B, D)
    """

    def __init__(self, hidden_dim: int, **kwargs):
        super().__init__(**kwargs)
        self.query = self.add_weight(shape=(hidden_dim,), initializer="zeros", name="query", autocast=False)
        self.built = True

    def call(self, states, padding_mask):
        real, values = ops.cast(padding_mask, "bool"), ops.cast(states, "float32")
        scores = ops.einsum("bld,d->bl", values, self.query)
        shares = ops.softmax(ops.where(real, scores, HIDDEN), axis=-1)  # (B, L)
        return ops.cast(ops.einsum("bl,bld->bd", shares, values), states.dtype)


def pooling_of(name: str, hidden_dim: int) -> tuple[Callable[[Any, Any], Any], AttentionPooling | None]:
    """Returns the pooling of a name in `poolings` other than "published", and the layer that holds its weights.

    Returns:
        A function of states (B, L, D) and `padding_mask` (B, L) that returns (B, D), or (B, N * D) for N concatenated poolings;
        and the layer, which the caller must keep as a sublayer, or None if the pooling has no weights.
    """
    layer = AttentionPooling(hidden_dim) if "attention" in parts(name) else None
    pools = [STATELESS.get(each, layer) for each in parts(name)]

    def pool(states, padding_mask):
        found = [each(states, padding_mask) for each in pools]
        return found[0] if len(found) == 1 else ops.concatenate(found, axis=-1)

    return pool, layer


def _at(states, places):
    """Returns the states (B, D) at positions (B,)."""
    return ops.squeeze(take_rows(states, ops.expand_dims(places, 1)), 1)
