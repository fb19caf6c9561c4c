"""Attention within buckets of similar tokens, by locality-sensitive hashing: Reformer (Kitaev et al., 2020, arXiv 2001.04451)."""

import dataclasses
import math
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.attention.core import pad_tokens
from xmodels.layers.cached_attention import CachedAttention
from xmodels.layers.choices import choose
from xmodels.layers.dropout import active_seed
from xmodels.layers.hashes import normal_hashes
from xmodels.layers.mixers import Numbers, number
from xmodels.layers.sorted_buckets import Sorted, factors_of, in_line

PAPER, TRAX = "paper", "trax"
ALL, ONCE = "all", "once"
HIDDEN, ITSELF = -1e9, -1e5  # a token attends to itself only where it sees no other


@dataclasses.dataclass(frozen=True)
class LshNumbers(Numbers):
    """The numbers of `LshAttention`."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"num_buckets": (0, 2**20), "chunks_after": (0, 1)}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"key_norm": (PAPER, TRAX), "duplicates": (ALL, ONCE)}
    of_no_weight: ClassVar[frozenset[str]] = frozenset(
        {"chunk_size", "num_hashes", "num_buckets", "chunks_after", "key_norm", "duplicates", "across_buckets"}
    )
    chunk_size: int = number(64, "tokens of a chunk, in the order of their buckets")
    num_hashes: int = number(2, "rounds of hashing; more come closer to full attention")
    num_buckets: int = number(0, "buckets, an even number; 0 for twice as many as the longest text has chunks")
    chunks_after: int = number(
        0, "chunks behind its own that a token sees beside the one before; 1 for networks that see both sides"
    )
    key_norm: str = number(
        "paper", "by what scores are divided. paper: the key's norm and sqrt(K). trax: the key's norm"
    )
    duplicates: str = number(
        "all", "how often a token counts that several rounds find. all: in each of them. once: once"
    )
    across_buckets: bool = number(True, "whether a token sees the others of its chunks that are not of its bucket")


class LshAttention(CachedAttention):
    """Softmax attention to tokens whose query has a similar direction, in O(L log L). Queries are the keys too.

    A round multiplies all tokens by a random matrix R; the largest of [x R, -x R] is the bucket. Tokens are sorted by bucket and
    place. Each chunk of them attends to itself and the chunk before, cyclically. Rounds are added with the weight of their sums.
    A training step draws R from the seed of its dropout; otherwise R is a function of the layer (`layers.hashes`).
    Padding has a bucket of its own.

    In causal attention no token takes from later ones, but these may change in which chunk it stands. So `step` does not follow the
    buckets of a text that is not there yet: it attends to all earlier tokens, which is what many rounds come to.

    Args:
        index: the number of the layer.
        num_buckets: an even number, or those of several hashes whose tuples are the buckets. Others as in `LshNumbers` and
            `ProjectedMixer`.
    """

    numbers = LshNumbers
    supports = frozenset({"padding", "causal"})
    selects = True
    starts_from_attention = False

    def __init__(
        self, *args, chunk_size: int, num_hashes: int, num_buckets: int | tuple[int, ...], chunks_after: int, key_norm: str,
        duplicates: str, across_buckets: bool, index: int, **kwargs,
    ):  # fmt: skip
        super().__init__(*args, **kwargs)
        self.key = self.query
        self.chunk_size, self.num_hashes, self.chunks_after = chunk_size, num_hashes, chunks_after
        self.counts_once, self.across_buckets = duplicates == ONCE, across_buckets
        self.scale = self.head_dim**-0.5 if key_norm == PAPER else 1.0
        self.factors = num_buckets if isinstance(num_buckets, tuple) else factors_of(num_buckets)
        self.num_buckets = math.prod(self.factors)
        self.rotations = normal_hashes((index,), self.shape_of_rotations)

    @property
    def shape_of_rotations(self):
        """The shape of R: heads, their width, rounds, half of the buckets of each hash after one another."""
        return self.num_heads, self.head_dim, self.num_hashes, sum(self.factors) // 2

    @classmethod
    def for_block(cls, config, initialization, index=0, shared=None):
        numbers = {field.name: getattr(config.mixer_numbers, field.name) for field in dataclasses.fields(cls.numbers)}
        chunks = -(-config.max_sequence_length // numbers["chunk_size"])
        numbers["num_buckets"] = numbers["num_buckets"] or 2 * chunks
        return cls(
            config.num_heads, config.hidden_dim, config.attention_dropout, initialization, **numbers, index=index
        )

    @classmethod
    def keys_per_query(cls, config, length):
        numbers = config.mixer_numbers
        return min(length, (2 + numbers.chunks_after) * numbers.chunk_size * numbers.num_hashes)

    def call(self, x, visible=None, context=None, training=None):
        """Works as in `Mixer`; `context` is the text that begins with the tokens of `x`."""
        mixed = super().call(x if context is None else context, visible, training=training)
        return mixed[:, : ops.shape(x)[1]]

    def check(self, length) -> None:
        """Raises a ValueError where the places of tokens in the order of their buckets would not be int32."""
        if length is not None and (self.num_buckets + 1) * self.num_hashes * (length + self.chunk_size) >= 2**31:
            raise ValueError(
                f"LSH attention sorts tokens by numbers below 2^31: buckets, {self.num_buckets + 1:,}, times rounds, "
                f"{self.num_hashes}, times tokens, {length:,}. Take fewer of one of them."
            )

    def mix(self, query, key, value, visible, training=None):
        self.check(query.shape[1])
        length = ops.shape(query)[1]
        missing = -length % self.chunk_size
        real = (
            ops.ones(ops.shape(query)[:2], "int32") if visible.padding is None else ops.cast(visible.padding, "int32")
        )
        x, value = (ops.transpose(pad_tokens(each, missing), (0, 2, 1, 3)) for each in (query, value))  # (B, H, L, K)
        found = Sorted(self.buckets(x, pad_tokens(real, missing), training), self.chunk_size)
        mixed, weights = self.mix_chunks(x, value, pad_tokens(real, missing), found, visible.causal, training)
        mixed, weights = found.restore_order(mixed), found.restore_order(weights)  # (B, H, n, L, K) and (B, H, n, L, 2)
        largest, sums = ops.stop_gradient(weights[..., :1]), weights[..., 1:]
        shares = ops.exp(largest - ops.max(largest, axis=2, keepdims=True))  # of the rounds
        shares = shares / ops.sum(shares * sums, axis=2, keepdims=True)
        mixed = ops.sum(ops.cast(shares, mixed.dtype) * mixed, axis=2)
        return ops.transpose(mixed, (0, 2, 1, 3))[:, :length]

    def buckets(self, x, real, training=None):
        """Returns the bucket of each token in each round, int (B, H, n, L); those of other rounds have other numbers.

        Args:
            x: (B, H, L, K).
            real: int (B, L), 0 at padding, whose bucket is the last of a round.
        """
        return choose(lambda: self._hash(x, real, training))

    def _hash(self, x, real, training):
        seed = active_seed() if training else None
        rotations = self.rotations if seed is None else keras.random.normal(self.shape_of_rotations, seed=seed)
        x = ops.stop_gradient(ops.cast(x, "float32"))
        rotated = ops.einsum("bhlk,hknr->bhnlr", x, ops.cast(rotations, "float32"))
        bucket, first, step = 0, 0, 1
        for size in self.factors:
            part = rotated[..., first : first + size // 2]
            bucket = bucket + step * ops.argmax(ops.concatenate([part, -part], axis=-1), axis=-1)
            first, step = first + size // 2, step * size
        bucket = ops.where(
            ops.expand_dims(ops.expand_dims(real, 1), 1) > 0, ops.cast(bucket, "int32"), self.num_buckets
        )
        rounds = ops.reshape(ops.arange(self.num_hashes, dtype="int32"), (1, 1, -1, 1))
        return bucket + rounds * (self.num_buckets + 1)

    def mix_chunks(self, x, value, real, found: "Sorted", is_causal, training):
        """Mixes each chunk with weights that are not divided by their sums yet.

        Weights are exp(score - largest score of the query): one pass over all pairs, and one for the gradient.

        Returns:
            (B, H, n L, K), and float32 (B, H, n L, 2), the largest score and the sum of the weights.
        """
        query = found.chunks(x)  # (B, H, C, m, K)
        key, value = (self.around(found.chunks(each)) for each in (self.normalize(x), value))
        real = ops.broadcast_to(ops.expand_dims(ops.expand_dims(real, 1), 3), (*ops.shape(x)[:3], 1))
        mask = ops.expand_dims(self.around(found.chunks(real))[..., 0], 3) > 0
        places = found.split_into_chunks(found.places)  # (B, H, C, m)
        own, others = ops.expand_dims(places, 4), ops.expand_dims(self.around(places), 3)
        if is_causal:
            mask = ops.logical_and(mask, others <= own)
        if not self.across_buckets:
            bucket = found.split_into_chunks(found.sorted_buckets)
            same = ops.equal(ops.expand_dims(bucket, 4), ops.expand_dims(self.around(bucket), 3))
            mask = ops.logical_and(mask, same)
        scores = ops.cast(ops.einsum("bhcqk,bhcsk->bhcqs", query, key), "float32")
        scores = ops.where(mask, ops.where(ops.equal(own, others), ITSELF, scores), HIDDEN)
        if self.counts_once:
            scores = scores - ops.log(ops.maximum(self.times_found(found), 1.0))
        largest = ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True))
        weights = ops.exp(scores - largest)
        sums = ops.sum(weights, axis=-1, keepdims=True)
        weights = self.dropout(ops.cast(weights, value.dtype), training=training)
        mixed = ops.einsum("bhcqs,bhcsk->bhcqk", weights, value)
        return in_line(mixed), in_line(ops.concatenate([largest, sums], axis=-1))

    def normalize(self, x):
        """Returns the keys of queries: their directions, times the scale."""
        wide = ops.cast(x, "float32")
        norms = ops.sqrt(ops.sum(ops.square(wide), axis=-1, keepdims=True) + 1e-6 * self.head_dim)
        return ops.cast(wide / norms * self.scale, x.dtype)

    def around(self, x):
        """Returns the keys of each chunk, cyclically: (B, H, C, m, ...) -> (B, H, C, 2 m or 3 m, ...)."""
        parts = [ops.roll(x, 1, axis=2), x, *([ops.roll(x, -1, axis=2)] if self.chunks_after else [])]
        return ops.concatenate(parts, axis=3)

    def times_found(self, found: "Sorted"):
        """Returns in how many places of all rounds a query meets a key, float32 (B, H, C, m, s)."""
        chunk = found.chunks(ops.transpose(found.chunk_of, (0, 1, 3, 2)))  # (B, H, C, m, n)
        bucket = found.chunks(ops.transpose(found.buckets, (0, 1, 3, 2)))
        pairs = [(ops.expand_dims(each, 4), ops.expand_dims(self.around(each), 3)) for each in (chunk, bucket)]
        return self.meetings(*pairs, found.count, axis=-1)

    def meetings(self, chunks, buckets, count, axis):
        """Returns how often queries meet keys, summed over the axis of rounds.

        Args:
            chunks, buckets: of the query and of the key in each round, which broadcast.
            count: chunks of all rounds.
        """
        query, key = chunks
        times = ops.cast(ops.equal(query, key), "float32")
        for shift in self.shifts:
            times = times + ops.cast(ops.equal(query, (key + shift) % count), "float32")
            if (
                self.num_hashes > 1 and self.across_buckets
            ):  # the first chunk of a round sees the last one of the round before
                key_of_other_round = ops.roll(key, shift, axis=axis)
                times = times + ops.cast(ops.equal(query, (key_of_other_round + shift) % count), "float32")
        if not self.across_buckets:
            times = times * ops.cast(ops.equal(*buckets), "float32")
        return ops.sum(times, axis=axis)

    @property
    def shifts(self) -> tuple[int, ...]:
        """How many chunks a query may stand behind a key that is not in its own."""
        return (1, *([-1] if self.chunks_after else []))

    def probabilities(self, x, visible=None):
        visible, length = self.supported(visible), x.shape[1]
        query = ops.transpose(self.query(x), (0, 2, 1, 3))
        missing = -length % self.chunk_size
        real = ops.ones(ops.shape(x)[:2], "int32") if visible.padding is None else ops.cast(visible.padding, "int32")
        whole = ops.pad(query, ((0, 0), (0, 0), (0, missing), (0, 0)))
        found = Sorted(self.buckets(whole, pad_tokens(real, missing)), self.chunk_size)
        chunk, bucket = found.chunk_of[..., :length], found.buckets[..., :length]
        pairs = [(ops.expand_dims(each, 4), ops.expand_dims(each, 3)) for each in (chunk, bucket)]  # (B, H, n, L, L)
        times = self.meetings(*pairs, found.count, axis=2)
        times = ops.minimum(times, 1.0) if self.counts_once else times
        scores = ops.cast(ops.einsum("bhqk,bhsk->bhqs", query, self.normalize(query)), "float32")
        scores = ops.where(ops.eye(length, dtype="bool"), ITSELF, scores) + ops.log(ops.maximum(times, 1e-30))
        scores = ops.where(times > 0, scores, HIDDEN)
        mask = visible.dense(length, length)
        return ops.softmax(scores if mask is None else ops.where(mask, scores, HIDDEN), axis=-1)

    def project(self, x):
        return self.query(x), self.value(x)

    def keep(self, x):
        key, value = super().keep(x)
        return self.normalize(key) / self.scale, value  # `attend_to_kept` multiplies by it

    def bias(self, queries, keys):
        itself = ops.equal(ops.expand_dims(queries, 1), ops.expand_dims(keys, 0))
        return ops.cast(itself, "float32")[None, None] * ITSELF / 10  # above the scores of hidden keys
