"""Star-Transformer's links as a mixer: each token takes from its neighbours and from one relay, which takes from all (Guo et al.,
2019, arXiv 1902.09113, section 3)."""

import dataclasses

from keras import ops

from xmodels.layers.attention.core import HIDDEN, attend
from xmodels.layers.attention.visible import Visible
from xmodels.layers.mixers import Numbers, ProjectedMixer, number
from xmodels.layers.pooling import mean_state


@dataclasses.dataclass(frozen=True)
class StarNumbers(Numbers):
    """The numbers of `Star`."""

    is_ring: bool = number(True, "whether the first and the last token of a text are neighbours")


class Star(ProjectedMixer):
    """Softmax attention of each token to itself, its two neighbours and a relay, in O(L) instead of O(L^2). It has no causal form.

    The relay is attention from the mean of the real tokens to all of them. Unlike in `StarTransformer`, no relay goes from layer to
    layer: each layer makes its own with the weights by which tokens attend, so there are no weights beside those of attention.

    Args:
        is_ring: as in `StarNumbers`. Others as in `ProjectedMixer`.
    """

    numbers = StarNumbers
    supports = frozenset({"padding"})
    has_probabilities = False

    def __init__(self, *args, is_ring: bool = True, **kwargs):
        super().__init__(*args, **kwargs)
        self.is_ring = is_ring

    @classmethod
    def keys_per_query(cls, config, length):
        return min(length, 4)

    def call(self, x, visible=None, context=None, training=None):
        """Works as in `Mixer`; `context` is the text that begins with the tokens of `x`."""
        text, visible = x if context is None else context, self.supported(visible)
        real, (key, value) = real_tokens(text, visible.padding), self.project(text)
        relay = self.relay(text, key, value, real, training)  # (B, 1, D)
        ring, count = Ring(real, self.is_ring), ops.shape(x)[1]
        keys, values = ([each[:, :count] for each in ring.around(part)] for part in (key, value))
        there = [each[:, :count] for each in ring.there]
        keys, values = [*keys, self.key(relay)], [*values, self.value(relay)]
        mixed = attend_to_few(self.query(x), keys, values, [*there, None], self.dropout, training)
        return self.merge(mixed)

    def relay(self, text, key, value, real, training=None):
        """Returns the relay (B, 1, D) of a text (B, L, D), given its keys and values (B, L, H, K) and its real tokens, bool (B, L)."""
        query = self.query(ops.expand_dims(mean_state(text, real), 1))
        return self.merge(attend(query, key, value, Visible(real), dropout=self.dropout, training=training))

    def explicit(self, x, visible=None):
        real, length = real_tokens(x, self.supported(visible).padding), x.shape[1]
        relay = self.relay(x, *self.project(x), real)
        text = ops.concatenate([x, relay], axis=1)
        places = ops.arange(length)
        near = ops.abs(places[:, None] - places[None]) <= 1
        links = ops.broadcast_to(ops.expand_dims(near, 0), (ops.shape(x)[0], length, length))
        if self.is_ring:
            first, last = ops.argmax(ops.cast(real, "int32"), axis=1), ops.max(ops.where(real, places, 0), axis=1)
            ends = ops.logical_or(places == first[:, None], places == last[:, None])  # (B, L)
            links = ops.logical_or(links, ops.logical_and(ends[:, :, None], ends[:, None]))
        links = ops.logical_and(links, real[:, None])
        links = ops.concatenate([links, ops.ones((ops.shape(x)[0], length, 1), "bool")], axis=2)
        return self.merge(attend(self.query(x), *self.project(text), ops.expand_dims(links, 1)))


class Ring:
    """The links between neighbours of texts: bool `real` (B, L), True on their tokens, which stand side by side.

    Args:
        real: which tokens there are.
        is_closed: whether the first and the last token are neighbours too, in texts of more than two tokens.

    Attributes:
        there: bool (B, L) each, whether there is a token at the place itself, on its left, and on its right.
    """

    def __init__(self, real, is_closed: bool):
        places, length = ops.arange(ops.shape(real)[1], dtype="int32"), ops.shape(real)[1]
        left = ops.logical_and(ops.roll(real, 1, axis=1), places > 0)
        right = ops.logical_and(ops.roll(real, -1, axis=1), places < length - 1)
        self.first = self.last = None
        if is_closed:
            numbers = ops.cumsum(ops.cast(real, "int32"), axis=1)  # from 1 on
            count = numbers[:, -1:]  # (B, 1)
            several = ops.logical_and(real, count > 2)
            self.first = ops.logical_and(several, numbers == 1)
            self.last = ops.logical_and(several, numbers == count)
            left, right = ops.logical_or(left, self.first), ops.logical_or(right, self.last)
        self.there = [real, left, right]

    def around(self, x):
        """Returns keys or values at the place itself, on its left, and on its right: (B, L, H, K) -> three of (B, L, H, K)."""
        left, right = ops.roll(x, 1, axis=1), ops.roll(x, -1, axis=1)
        if self.first is not None:
            left = ops.where(_column(self.first), _at(x, self.last), left)
            right = ops.where(_column(self.last), _at(x, self.first), right)
        return [x, left, right]


def attend_to_few(query, keys, values, there, dropout=None, training=None):
    """Returns the attention of each token to a few keys of its own.

    Args:
        query: (B, L, H, K).
        keys, values: S tensors (B, L, H, K) each; (B, 1, H, K) where one is the same for all tokens.
        there: for each key bool (B, L), whether it exists; None where it always does.
        dropout: a layer for the probabilities, or None.
        training: passed to `dropout`.

    Returns:
        (B, L, H, K)
    """
    query = query * ops.cast(query.shape[-1] ** -0.5, query.dtype)
    scores = []
    for key, exists in zip(keys, there, strict=True):
        score = ops.cast(ops.sum(query * key, axis=-1), "float32")  # (B, L, H)
        if exists is not None:
            score = score + ops.expand_dims((1.0 - ops.cast(exists, "float32")) * HIDDEN, -1)
        scores.append(score)
    shares = ops.cast(ops.softmax(ops.stack(scores, axis=-1), axis=-1), query.dtype)  # (B, L, H, S)
    if dropout is not None:
        shares = dropout(shares, training=training)
    return sum(shares[..., index : index + 1] * value for index, value in enumerate(values))


def real_tokens(text, padding):
    """Returns which tokens of a text (B, L, D) there are: `padding` as bool (B, L), or all where it is None."""
    return ops.ones(ops.shape(text)[:2], "bool") if padding is None else ops.cast(padding, "bool")


def _column(x):
    """Returns (B, L) -> (B, L, 1, 1)"""
    return ops.expand_dims(ops.expand_dims(x, -1), -1)


def _at(x, place):
    """Returns x (B, L, H, K) at the only place where `place`, bool (B, L), is True: (B, 1, H, K); zeros if it is nowhere."""
    return ops.sum(x * ops.cast(_column(place), x.dtype), axis=1, keepdims=True)
