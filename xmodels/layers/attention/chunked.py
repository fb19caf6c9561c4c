"""Multi-head attention whose scores are computed for some queries at a time (Rabe and Staats, 2021, arXiv 2112.05682)."""

import contextlib
import dataclasses
from typing import ClassVar

from keras import ops

from xmodels.layers.attention.core import attend, pad_tokens
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.attention.visible import Visible
from xmodels.layers.dropout import active_seed, dropout_seed
from xmodels.layers.mixers import Numbers, number
from xmodels.layers.rematerialization import recompute

PARTS = 4  # of a causal text, each of two chunks or more: what XLA puts beside each other takes memory


@dataclasses.dataclass(frozen=True)
class ChunkedNumbers(Numbers):
    """The numbers of `ChunkedAttention`."""

    of_no_weight: ClassVar[frozenset[str]] = frozenset({"chunk_size"})
    chunk_size: int = number(512, "queries whose scores are computed at a time")


class ChunkedAttention(MultiHeadAttention):
    """Computes what `MultiHeadAttention` does, with the same weights, in memory O(L * c) instead of O(L^2).

    One chunk of c queries follows the other, and the gradient computes the scores of a chunk again, so no tensor holds a number for
    every two tokens. A causal text is mixed in `PARTS`, which leaves out most of the scores that are hidden.

    Args:
        chunk_size: c, at least 1. Others as in `ProjectedMixer`.

    Raises:
        ValueError: `chunk_size` is below 1.
    """

    numbers = ChunkedNumbers
    supports = MultiHeadAttention.supports
    compares_all = False

    def __init__(self, *args, chunk_size: int, **kwargs):
        super().__init__(*args, **kwargs)
        if chunk_size < 1:
            raise ValueError(f"`chunk_size` must be at least 1. Received: {chunk_size}.")
        self.chunk_size = chunk_size

    @classmethod
    def keys_per_query(cls, config, length):
        return min(length, config.mixer_numbers.chunk_size)

    def mix(self, query, key, value, visible, training=None):
        length, keys = query.shape[1], key.shape[1]
        if length is not None and length <= self.chunk_size:
            return super().mix(query, key, value, visible, training)
        if not visible.causal or visible.prefix is not None or length is None or length != keys:
            return self.mix_chunks(query, key, value, visible, training)
        mixed, begin = [], 0
        for end in self.ends_of_parts(length):
            before = _of_first_keys(visible, end)
            mixed.append(self.mix_chunks(query[:, begin:end], key[:, :end], value[:, :end], before, training, begin))
            begin = end
        return ops.concatenate(mixed, axis=1)

    def ends_of_parts(self, length: int) -> list[int]:
        """Returns where parts of a causal text end, whose queries are compared with no key behind their part."""
        chunks = -(-length // self.chunk_size)
        count = max(1, min(PARTS, chunks // 2))
        return [min(length, -(-chunks * part // count) * self.chunk_size) for part in range(1, count + 1)]

    def mix_chunks(self, query, key, value, visible, training=None, begin: int = 0):
        """Returns `attend` for the queries from the token `begin` on, one chunk after the other."""
        size, seed = self.chunk_size, active_seed()
        (batch, length), keys = ops.shape(query)[:2], ops.shape(key)[1]
        chunks = pad_tokens(query, -length % size)
        chunks = ops.swapaxes(ops.reshape(chunks, (batch, -1, size, *query.shape[2:])), 0, 1)  # (n, B, c, H, K)
        firsts = begin + ops.arange(ops.shape(chunks)[0], dtype="int32") * size

        def mix_chunk(chunk, key, value, first):
            """Mixes for the queries from `first` on: (B, c, H, K). Those behind the end see what the last one does."""
            places = ops.minimum(first + ops.arange(size, dtype="int32"), begin + length - 1)
            return attend(chunk, key, value, visible.dense(places, keys), dropout=self.dropout, training=training)

        def mixed(parts):
            chunk, first = parts
            others = {"key": key, "value": value, "first": first}
            with _seed_of_chunk(seed, first):
                return recompute(mix_chunk, chunk, **others) if training else mix_chunk(chunk, **others)

        found = ops.swapaxes(ops.map(mixed, (chunks, firsts)), 0, 1)
        if seed:
            seed.draws += 1
        return ops.reshape(found, (batch, -1, *query.shape[2:]))[:, :length]


def _of_first_keys(visible: Visible, count: int) -> Visible:
    """Returns which of the first keys may be attended to."""
    fields = {name: getattr(visible, name) for name in ("padding", "packs", "global_ids", "order")}
    return dataclasses.replace(visible, **{name: x[:, :count] for name, x in fields.items() if x is not None})


def _seed_of_chunk(seed, first):
    """Makes dropout of a chunk draw other bits than that of the chunks before it, though the loop draws once."""
    if seed is None:
        return contextlib.nullcontext()
    words = ops.stack([seed.base[0] + ops.cast(first, "uint32") * 40503, seed.base[1]])
    return dropout_seed(words, seed.draws)
