"""From the states of a text to one state: the readouts that any network has.

Padding counts nowhere and may stand on either side; special tokens count as all others do, as in Sentence-BERT (Reimers and Gurevych,
2019, section 3). A row that is all padding, such as a choice that an example lacks, gets finite numbers.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from xmodels.layers.poolings import parts

HIDDEN = -1e9  # what stands for a state or a score that is not to be taken


def first_state(states, padding_mask):
    """(B, L, D) -> (B, D), the state of the first real token; `padding_mask` is bool (B, L), True on real tokens."""
    return _at(states, ops.argmax(ops.cast(padding_mask, "int32"), axis=1))


def last_state(states, padding_mask):
    """Likewise of the last real token."""
    places = ops.arange(ops.shape(states)[1], dtype="int32")  # (L,)
    return _at(states, ops.max(ops.where(ops.cast(padding_mask, "bool"), places, 0), axis=1))


def mean_state(states, padding_mask):
    """(B, L, D) -> (B, D), the mean of the states of the real tokens. The sum is one of float32."""
    real = ops.expand_dims(ops.cast(padding_mask, "float32"), -1)  # (B, L, 1)
    total = ops.sum(ops.cast(states, "float32") * real, axis=1)  # (B, D)
    return ops.cast(total / ops.maximum(ops.sum(real, axis=1), 1.0), states.dtype)


def mean_sqrt_len_state(states, padding_mask):
    """(B, L, D) -> (B, D), the sum of the states of the real tokens over the root of their number (as in sentence-transformers)."""
    real = ops.expand_dims(ops.cast(padding_mask, "float32"), -1)  # (B, L, 1)
    total = ops.sum(ops.cast(states, "float32") * real, axis=1)  # (B, D)
    return ops.cast(total / ops.sqrt(ops.maximum(ops.sum(real, axis=1), 1.0)), states.dtype)


def weighted_mean_state(states, padding_mask):
    """(B, L, D) -> (B, D), the mean in which the first real token has the weight 1, the second 2, and so on (Muennighoff, 2022,
    section 3)."""
    real = ops.cast(padding_mask, "float32")
    weights = ops.expand_dims(ops.cumsum(real, axis=1) * real, -1)  # (B, L, 1)
    total = ops.sum(ops.cast(states, "float32") * weights, axis=1)  # (B, D)
    return ops.cast(total / ops.maximum(ops.sum(weights, axis=1), 1.0), states.dtype)


def max_state(states, padding_mask):
    """(B, L, D) -> (B, D), in each dimension the largest number of the real tokens; 0 where there is none."""
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
    """The mean of the states of real tokens, weighted by a softmax of their products with a learned query (Yang et al., 2016,
    equations 5 to 7, without their hidden layer).

    The query begins as zeros, so that the layer begins as `mean_state`.

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
    """The readout of a name of `poolings` that is not "published", and the layer whose weights it has; None where it has none.

    Returns:
        a function of states (B, L, D) and `padding_mask` (B, L) with the result (B, D), or (B, N D) of N poolings side by side;
        and the layer, whose owner the caller is.
    """
    layer = AttentionPooling(hidden_dim) if "attention" in parts(name) else None
    pools = [STATELESS.get(each, layer) for each in parts(name)]

    def pool(states, padding_mask):
        found = [each(states, padding_mask) for each in pools]
        return found[0] if len(found) == 1 else ops.concatenate(found, axis=-1)

    return pool, layer


def _at(states, places):
    """The states (B, D) of places (B,)."""
    places = ops.reshape(ops.cast(places, "int32"), (-1, 1, 1))
    return ops.squeeze(ops.take_along_axis(states, places, axis=1), 1)
