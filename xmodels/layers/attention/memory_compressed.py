"""Memory-compressed attention: a convolution merges keys and values of neighbours (Liu et al., 2018, arXiv 1801.10198, section 4)."""

import dataclasses

import keras
from keras import ops

from xmodels.layers.attention.core import HIDDEN, heads_first, pad_tokens
from xmodels.layers.attention.places import positions_of, slot_of
from xmodels.layers.attention.writing import write_at
from xmodels.layers.mixers import Numbers, ProjectedMixer, number


@dataclasses.dataclass(frozen=True)
class MemoryCompressedNumbers(Numbers):
    """The numbers of `MemoryCompressed`."""

    compression: int = number(3, "how many neighbours become one key and one value")


class MemoryCompressed(ProjectedMixer):
    """Softmax attention to groups of c tokens, whose keys and values are those of a convolution of width and stride c, in O(L^2 / c).

    Padding is zero before it is merged. In causal attention a token attends to the groups that end before its own, and to the tokens
    of its own group up to itself as they are; without these, it would not see the tokens before it. (The paper has layers of local
    attention in between for that.) `probabilities` are no share of single tokens.

    Args:
        compression: c. Others as in `ProjectedMixer`.
    """

    numbers = MemoryCompressedNumbers
    supports = frozenset({"padding", "causal"})
    has_probabilities = False

    def __init__(self, *args, compression: int, **kwargs):
        super().__init__(*args, **kwargs)
        self.group = compression
        shape = (compression, self.num_heads, self.head_dim, self.head_dim)
        # Begins as the mean of the group, plus a little noise, so that a trained network goes on from about what it computed.
        mean = ops.eye(self.head_dim)[None, None] / compression

        def initializer(shape, dtype=None):
            noise = keras.random.normal(shape, stddev=0.02, dtype=dtype)
            return ops.cast(ops.broadcast_to(mean, shape), noise.dtype) + noise

        self.merge_keys, self.merge_values = (
            self.add_weight(shape=shape, initializer=initializer, name=name) for name in ("merge_keys", "merge_values")
        )

    @classmethod
    def keys_per_query(cls, config, length):
        return -(-length // config.mixer_numbers.compression)

    def groups_of(self, key, value, real):
        """Returns the keys and values of groups, (B, G, H, K) each, and which of them have a real token, bool (B, G)."""
        missing, size = -ops.shape(key)[1] % self.group, self.group
        real = pad_tokens(ops.cast(real, key.dtype), missing)
        found = []
        for x, weights in ((key, self.merge_keys), (value, self.merge_values)):
            x = pad_tokens(x, missing) * real[:, :, None, None]
            x = ops.reshape(x, (ops.shape(x)[0], -1, size, self.num_heads, self.head_dim))
            found.append(ops.einsum("bgchk,chkn->bghn", x, ops.cast(weights, x.dtype)))
        return *found, ops.any(ops.reshape(real, (ops.shape(real)[0], -1, size)) > 0, axis=2)

    def mix(self, query, key, value, visible, training=None):
        real = ops.ones(ops.shape(key)[:2], "bool") if visible.padding is None else ops.cast(visible.padding, "bool")
        positions = ops.arange(ops.shape(query)[1], dtype="int32")
        return self.mix_at(query, key, value, real, positions, visible.causal, training)

    def mix_at(self, query, key, value, real, positions, is_causal: bool, training=None):
        """Mixes for queries at positions (L,): (B, L, H, K)."""
        keys, values, there = self.groups_of(key, value, real)  # (B, G, H, K), (B, G)
        own = positions // self.group  # (L,)
        attention_mask = ops.expand_dims(there, 1)  # (B, 1, G)
        if is_causal:
            before = ops.expand_dims(ops.arange(ops.shape(keys)[1], dtype="int32"), 0) < ops.expand_dims(own, 1)
            attention_mask = ops.logical_and(attention_mask, before[None])
        query = query * self.head_dim**-0.5
        scores = _masked(ops.einsum("blhk,bghk->bhlg", query, keys), attention_mask[:, None])
        if not is_causal:
            weights = self.dropout(ops.cast(ops.softmax(scores, axis=-1), values.dtype), training=training)
            return ops.einsum("bhlg,bghk->blhk", weights, values)
        near, near_values, count = self.near_scores(query, key, value, real, positions, own)
        weights = ops.softmax(ops.concatenate([scores, near], axis=-1), axis=-1)
        weights = self.dropout(ops.cast(weights, values.dtype), training=training)
        mixed = ops.einsum("bhlg,bghk->blhk", weights[..., :-count], values)
        return mixed + ops.einsum("bhlc,blchk->blhk", weights[..., -count:], near_values)

    def near_scores(self, query, key, value, real, positions, own):
        """Returns the scores of the tokens of the own group, (B, H, L, c), their values (B, L, c, H, K), and c."""
        places = ops.expand_dims(own * self.group, 1) + ops.arange(self.group, dtype="int32")  # (L, c)
        seen = places <= ops.expand_dims(positions, 1)
        places = ops.minimum(places, ops.shape(key)[1] - 1)
        keys, values = (ops.take(each, places, axis=1) for each in (key, value))  # (B, L, c, H, K)
        seen = ops.logical_and(seen[None], ops.take(ops.cast(real, "bool"), places, axis=1))
        return _masked(ops.einsum("blhk,blchk->bhlc", query, keys), seen[:, None]), values, self.group

    def explicit(self, x, visible=None):
        visible = self.supported(visible)
        query, key, value = self.query(x), self.key(x), self.value(x)
        length, size = x.shape[1], self.group
        real = ops.ones(x.shape[:2]) if visible.padding is None else ops.cast(visible.padding, "float32")
        key, value = (each * real[:, :, None, None] for each in (key, value))
        columns, values, seen = [], [], []
        for first in range(0, length, size):
            tokens = range(first, min(first + size, length))
            merged = [
                sum(ops.einsum("bhk,hkn->bhn", each[:, t], weights[t - first]) for t in tokens)
                for each, weights in ((key, self.merge_keys), (value, self.merge_values))
            ]
            places = ops.arange(length)
            there = ops.any(real[:, first : first + size] > 0, axis=1)[:, None]
            columns.append(merged[0])
            values.append(merged[1])
            seen.append(ops.logical_and(there, (places // size > first // size)[None] if visible.causal else True))
            for t in tokens if visible.causal else ():
                columns.append(key[:, t])
                values.append(value[:, t])
                own = ops.logical_and(places // size == t // size, places >= t)
                seen.append(ops.logical_and(real[:, t : t + 1] > 0, own[None]))
        columns, values = ops.stack(columns, axis=1), ops.stack(values, axis=1)  # (B, M, H, K)
        mask = ops.stack([ops.broadcast_to(each, x.shape[:2]) for each in seen], axis=2)[:, None]  # (B, 1, L, M)
        scores = ops.einsum("blhk,bmhk->bhlm", query, columns) / self.head_dim**0.5
        weights = ops.softmax(scores + (1.0 - ops.cast(mask, "float32")) * HIDDEN, axis=-1)
        return self.merge(ops.einsum("bhlm,bmhk->blhk", weights, values))

    def start(self, batch, length: int):
        shape = (batch, self.num_heads, length, self.head_dim)
        return ops.zeros(shape, self.compute_dtype), ops.zeros(shape, self.compute_dtype)

    def step(self, x, past, place):
        past = tuple(
            write_at(old, heads_first(new), slot_of(place)) for old, new in zip(past, self.project(x), strict=True)
        )
        key, value = map(heads_first, past)  # (B, S, H, K)
        length = ops.shape(x)[1]
        real = ops.broadcast_to(ops.arange(ops.shape(key)[1], dtype="int32") < place + length, ops.shape(key)[:2])
        return self.merge(self.mix_at(self.query(x), key, value, real, positions_of(place, length), True)), past


def _masked(scores, attention_mask):
    """Returns the scores as float32, with those that are hidden far below the others."""
    return ops.cast(scores, "float32") + (1.0 - ops.cast(attention_mask, "float32")) * HIDDEN
