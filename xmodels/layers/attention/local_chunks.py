"""Attention within chunks of tokens and to the chunks beside them (Kitaev et al., 2020; `LocalSelfAttention` of their code)."""

import dataclasses
from typing import ClassVar

from keras import ops

from xmodels.layers.attention.core import HIDDEN, attend, pad_tokens
from xmodels.layers.attention.visible import Visible
from xmodels.layers.cached_attention import MaskedAttention
from xmodels.layers.mixers import Numbers, number


@dataclasses.dataclass(frozen=True)
class LocalChunksNumbers(Numbers):
    """The numbers of `LocalChunks`."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"chunks_before": (0, 1000), "chunks_after": (0, 1000)}
    of_no_weight: ClassVar[frozenset[str]] = frozenset({"chunk_size", "chunks_before", "chunks_after"})
    chunk_size: int = number(64, "tokens of a chunk")
    chunks_before: int = number(1, "chunks before its own that a token sees")
    chunks_after: int = number(1, "chunks behind its own that a token sees, unless the network is causal")


class LocalChunks(MaskedAttention):
    """Softmax attention to the tokens of the own chunk and of those beside it, in O(L * m).

    Chunks begin at multiples of m, so the first token of a chunk sees other distances than its last. Where the authors' code goes on
    from the first chunk to the last one, as in a ring, chunks beyond the ends are empty here.

    Args:
        chunk_size: m. Others as in `LocalChunksNumbers` and `ProjectedMixer`.
    """

    numbers = LocalChunksNumbers
    supports = frozenset({"padding", "causal"})

    def __init__(self, *args, chunk_size: int, chunks_before: int, chunks_after: int, **kwargs):
        super().__init__(*args, **kwargs)
        self.chunk_size, self.before, self.after = chunk_size, chunks_before, chunks_after

    @classmethod
    def keys_per_query(cls, config, length):
        numbers = config.mixer_numbers
        return min(length, (numbers.chunks_before + 1 + numbers.chunks_after) * numbers.chunk_size)

    def mix(self, query, key, value, visible, training=None):
        length, keys = query.shape[1], key.shape[1]
        if length is not None and (length <= self.chunk_size or length != keys):
            attention_mask = self.mask(ops.shape(query)[1], ops.shape(key)[1], visible)
            return attend(query, key, value, attention_mask, dropout=self.dropout, training=training)
        (batch, length), size = ops.shape(query)[:2], self.chunk_size
        missing, after = -length % size, 0 if visible.causal else self.after
        count = (length + missing) // size  # of chunks

        def own(x):
            """Returns (B, L, ...) -> (B C, m, ...)."""
            return ops.reshape(pad_tokens(x, missing), (batch * count, size, *x.shape[2:]))

        def around(x):
            """Returns each chunk with those beside it, zeros beyond the ends: (B, L, ...) -> (B C, s, ...)."""
            more = [(0, 0)] * (len(x.shape) - 2)
            x = ops.pad(x, [(0, 0), (self.before * size, missing + after * size), *more])
            x = ops.reshape(x, (batch, -1, size, *x.shape[2:]))
            x = ops.concatenate([x[:, i : i + count] for i in range(self.before + 1 + after)], axis=2)
            return ops.reshape(x, (batch * count, x.shape[2], *x.shape[3:]))

        real = ops.ones((batch, length), "int32")
        if visible.padding is not None:
            real = real * ops.cast(visible.padding, "int32")
        places = self.before * size + ops.arange(size, dtype="int32")  # of the queries, among the keys of their chunk
        near = Visible(around(real) > 0, causal=visible.causal)
        attention_mask = near.dense(places, (self.before + 1 + after) * size)
        mixed = attend(
            own(query), around(key), around(value), attention_mask, dropout=self.dropout, training=training
        )  # (B C, m, H, K)
        return ops.reshape(mixed, (batch, count * size, *mixed.shape[2:]))[:, :length]

    def mask(self, queries, keys: int, visible: Visible):
        """Returns which keys the first tokens of a text attend to, bool (B or 1, 1, L, S)."""
        query, key = (ops.arange(each, dtype="int32") // self.chunk_size for each in (queries, keys))
        behind = ops.expand_dims(query, 1) - ops.expand_dims(key, 0)
        near = ops.logical_and(behind <= self.before, -behind <= self.after)[None, None]
        seen = visible.dense(queries, keys)
        return near if seen is None else ops.logical_and(near, seen)

    def bias(self, queries, keys):
        behind = ops.expand_dims(queries // self.chunk_size, 1) - ops.expand_dims(keys // self.chunk_size, 0)
        return ops.cast(behind > self.before, "float32")[None, None] * HIDDEN
