"""Attention within clusters of tokens with learnt centroids: Routing Transformer (Roy et al., 2020, arXiv 2003.05997, section 4)."""

import dataclasses
import math
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers import costs
from xmodels.layers.attention.core import HIDDEN, attend_to_kept
from xmodels.layers.attention.places import attention_mask_from, slot_of
from xmodels.layers.attention.writing import write_at
from xmodels.layers.cached_attention import CachedAttention
from xmodels.layers.choices import choose
from xmodels.layers.mixers import Numbers, number
from xmodels.layers.rows import take_rows

COST = "routing"  # in the log


@dataclasses.dataclass(frozen=True)
class RoutingNumbers(Numbers):
    """The numbers of `Routing`."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"num_clusters": (0, 2**16), "commitment": (0, 1)}
    num_clusters: int = number(0, "clusters of each head; 0 for the root of the length of the longest text")
    commitment: float = number(1e-4, "factor of the distance of tokens from their centroid in the loss")


class Routing(CachedAttention):
    """Softmax attention among the tokens that are nearest to a centroid, L / C for each of C centroids, in O(L * sqrt(L)).

    Queries are the keys too, of norm sqrt(K). Each cluster takes the same number of tokens, so a token may belong to several, whose
    results are averaged, or to none, and then gets zero. Centroids are weights that the loss moves: the cost `routing` is the squared
    distance of tokens from their nearest centroid, which pulls both. (The paper moves centroids by an average over steps.)

    In causal attention no token takes from later ones, but these may take its place in a cluster. So `step` attends to all earlier
    tokens, as `LshAttention` does.

    Args:
        num_clusters: C.
        commitment: as in `RoutingNumbers`. Others as in `ProjectedMixer`.
    """

    numbers = RoutingNumbers
    supports = frozenset({"padding", "causal"})
    selects = True
    starts_from_attention = False
    has_probabilities = False

    def __init__(self, *args, num_clusters: int, commitment: float, **kwargs):
        super().__init__(*args, **kwargs)
        self.key = self.query
        self.commitment, self.scale = commitment, self.head_dim**0.5
        initializer = keras.initializers.RandomNormal(stddev=1.0)
        self.centroids = self.add_weight(
            shape=(self.num_heads, num_clusters, self.head_dim), initializer=initializer, name="centroids"
        )

    @classmethod
    def for_block(cls, config, initialization, index=0, shared=None):
        sizes = config.num_heads, config.hidden_dim, config.attention_dropout, initialization
        return cls(*sizes, num_clusters=cls.clusters_of(config), commitment=config.mixer_numbers.commitment)

    @staticmethod
    def clusters_of(config) -> int:
        """Returns C."""
        return config.mixer_numbers.num_clusters or max(1, math.isqrt(config.max_sequence_length))

    @classmethod
    def keys_per_query(cls, config, length):
        return -(-length // cls.clusters_of(config))

    def call(self, x, visible=None, context=None, training=None):
        """Works as in `Mixer`; `context` is the text that begins with the tokens of `x`."""
        mixed = super().call(x if context is None else context, visible, training=training)
        return mixed[:, : ops.shape(x)[1]]

    def mix(self, query, key, value, visible, training=None):
        (batch, length, heads, width), count = ops.shape(query), self.centroids.shape[1]
        x, value = (ops.transpose(each, (0, 2, 1, 3)) for each in (unit(query), value))  # (B, H, L, K)
        real = ops.ones((batch, length), "bool") if visible.padding is None else ops.cast(visible.padding, "bool")
        near = self.nearness(x, real)
        self.add_cost(near, real)
        places = choose(lambda: ops.top_k(near, -(-length // count))[1])  # (B, H, C, w)

        def members(x):
            """Returns the tokens of each cluster: (B, H, L, ...) -> (B, H, C, w, ...)."""
            taken = take_rows(x, ops.reshape(places, (batch, heads, -1)))
            return ops.reshape(taken, (*ops.shape(places), ops.shape(x)[-1]))

        shown = ops.broadcast_to(ops.cast(real, "float32")[:, None, :, None], (batch, heads, length, 1))
        mask = ops.expand_dims(members(shown)[..., 0], 3) > 0
        if visible.causal:
            mask = ops.logical_and(mask, ops.expand_dims(places, 3) <= ops.expand_dims(places, 4))
        scores = ops.cast(ops.einsum("bhcqk,bhcsk->bhcqs", members(x), members(x)) * self.scale, "float32")
        weights = ops.softmax(scores + (1.0 - ops.cast(mask, "float32")) * HIDDEN, axis=-1)
        weights = self.dropout(ops.cast(weights, value.dtype), training=training)
        mixed = ops.einsum("bhcqs,bhcsk->bhcqk", weights, members(value))
        rows = ops.reshape(ops.arange(batch * heads, dtype="int32"), (batch, heads, 1, 1)) * length
        rows = ops.reshape(rows + ops.cast(places, "int32"), (-1,))
        total = ops.segment_sum(ops.reshape(mixed, (-1, width)), rows, batch * heads * length)
        times = ops.segment_sum(ops.ones_like(rows, total.dtype), rows, batch * heads * length)
        mixed = ops.reshape(total / ops.maximum(times, 1)[:, None], (batch, heads, length, width))
        return ops.transpose(mixed, (0, 2, 1, 3))

    def nearness(self, x, real):
        """Returns the cosine of each token x (B, H, L, K) and each centroid, float32 (B, H, C, L); of padding less than all others."""
        near = ops.einsum("bhlk,hck->bhcl", ops.cast(x, "float32"), unit(ops.cast(self.centroids, "float32")))
        return ops.where(real[:, None, None, :], near, -2.0)

    def add_cost(self, near, real):
        """Adds the squared distance of tokens from their nearest centroid, 2 - 2 cos, to the loss."""
        weights = ops.cast(real, "float32")[:, None, :]
        distance = (2.0 - 2.0 * ops.max(near, axis=2)) * weights  # (B, H, L)
        costs.add(COST, self.commitment * ops.sum(distance), self.num_heads * ops.sum(weights))

    def explicit(self, x, visible=None):
        visible, length = self.supported(visible), x.shape[1]
        tokens = unit(ops.transpose(self.query(x), (0, 2, 1, 3)))
        real = ops.ones(x.shape[:2], "bool") if visible.padding is None else ops.cast(visible.padding, "bool")
        places = ops.top_k(self.nearness(tokens, real), -(-length // self.centroids.shape[1]))[1]
        belongs = ops.sum(ops.one_hot(places, length, dtype="float32"), axis=3)  # (B, H, C, L)
        scores = ops.exp(ops.einsum("bhqk,bhsk->bhqs", tokens, tokens) * self.scale)
        mask = visible.dense(length, length)
        scores = scores if mask is None else scores * ops.cast(mask, "float32")
        scores = ops.expand_dims(scores, 2) * belongs[..., :, None] * belongs[..., None, :]  # (B, H, C, L, L)
        weights = ops.sum(scores / ops.maximum(ops.sum(scores, axis=-1, keepdims=True), 1e-30), axis=2)
        weights = weights / ops.maximum(ops.sum(belongs, axis=2), 1.0)[..., None]
        return self.merge(ops.einsum("bhls,bshk->blhk", weights, self.value(x)))

    def project(self, x):
        return self.query(x), self.value(x)

    def keep(self, x):
        key, value = super().keep(x)
        return unit(key), value

    def attend_to_kept(self, x, kept, visible):
        attention_mask = self.supported(visible).dense(ops.shape(x)[1], ops.shape(kept[0])[2])
        return self.merge(attend_to_kept(unit(self.query(x)), *kept, attention_mask, scale=self.scale))

    def step(self, x, past, place):
        past = tuple(write_at(old, new, slot_of(place)) for old, new in zip(past, self.keep(x), strict=True))
        mask = attention_mask_from(place, ops.shape(x)[1], ops.shape(past[0])[2])
        return self.merge(attend_to_kept(unit(self.query(x)), *past, mask, scale=self.scale)), past


def unit(x):
    """Returns vectors of the same direction and of norm 1."""
    wide = ops.cast(x, "float32")
    return ops.cast(wide * ops.rsqrt(ops.sum(ops.square(wide), axis=-1, keepdims=True) + 1e-12), x.dtype)
