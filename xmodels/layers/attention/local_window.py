"""Sliding-window attention, in O(L * window) instead of O(L^2) (Beltagy et al., 2020, arXiv 2004.05150, section 3.1)."""

import dataclasses
from typing import ClassVar

from keras import ops

from xmodels.layers.attention.core import attend, attention_scores
from xmodels.layers.attention.visible import Visible, row
from xmodels.layers.mixers import Numbers, ProjectedMixer, number


@dataclasses.dataclass(frozen=True)
class LocalWindowNumbers(Numbers):
    """The numbers of `LocalWindow`."""

    of_no_weight: ClassVar[frozenset[str]] = frozenset({"window"})
    window: int = number(128, "how many tokens a token attends to on each side")


class LocalWindow(ProjectedMixer):
    """Softmax attention to the keys at a distance of at most `window`, on both sides or, if causal, on the left.

    Texts are split into blocks of `window` tokens, each of which attends to itself and its neighbours. The cache for decoding
    holds the keys and values of the last `window` tokens, (B, w, H, K) each, whatever the length of the text.

    Args:
        window: w, at least 1. Others as in `ProjectedMixer`.

    Raises:
        ValueError: `window` is below 1.
    """

    numbers = LocalWindowNumbers
    supports = frozenset({"padding", "causal", "packs", "window"})
    rewinds = False

    def __init__(self, *args, window: int, **kwargs):
        super().__init__(*args, **kwargs)
        if window < 1:
            raise ValueError(f"`window` must be at least 1. Received: {window}.")
        self.window = window

    @classmethod
    def keys_per_query(cls, config, length):
        return min(length, 3 * config.mixer_numbers.window)

    def mix(self, query, key, value, visible, training=None):
        visible, length = self.narrow_visible(visible), query.shape[1]
        if length is not None and (length <= self.window or length != key.shape[1]):  # one block, or cross-attention
            return attend(query, key, value, visible, dropout=self.dropout, training=training)
        return self.attend_in_blocks(query, key, value, visible, training)

    def narrow_visible(self, visible: Visible) -> Visible:
        """Returns `visible` with the window of this layer, or its own if that is smaller."""
        window = self.window if visible.window is None else min(self.window, visible.window)
        return dataclasses.replace(visible, window=window)

    def reach(self, length):
        return Visible(window=self.window).dense(length, length)[0]

    def attend_in_blocks(self, query, key, value, visible, training=None, extra=None):
        """Returns `attend`, with the queries of each block attending to the keys of two blocks (causal) or three.

        `extra` are further keys and values for all queries, (B, g, H, K), and which of them there are, bool (B, g).
        """
        (batch, length), size = ops.shape(query)[:2], self.window
        missing, more = -length % size, 0 if visible.causal else size
        count = (length + missing) // size  # of blocks

        def own(x):
            """Splits into n blocks of w tokens: (B, L, ...) -> (B n, w, ...)."""
            x = ops.pad(x, [(0, 0), (0, missing), *([(0, 0)] * (len(x.shape) - 2))])
            return ops.reshape(x, (batch * count, size, *x.shape[2:]))

        def around(x):
            """Returns each block with its neighbours, zeros beyond the ends: (B, L, ...) -> (B n, 2 w or 3 w, ...)."""
            x = ops.pad(x, [(0, 0), (size, missing + more), *([(0, 0)] * (len(x.shape) - 2))])
            x = ops.reshape(x, (batch, -1, size, *x.shape[2:]))
            parts = [x[:, i : i + count] for i in range(2 if visible.causal else 3)]
            x = ops.concatenate(parts, axis=2)
            return ops.reshape(x, (batch * count, x.shape[2], *x.shape[3:]))

        real = ops.ones((batch, length), "int32")
        if visible.padding is not None:
            real = real * ops.cast(visible.padding, "int32")
        near = Visible(causal=visible.causal, window=visible.window)
        places = size + ops.arange(size, dtype="int32")
        attention_mask = near.dense(places, 2 * size if visible.causal else 3 * size)  # (1, 1, w, 2 w or 3 w)
        attention_mask = ops.logical_and(attention_mask, row(around(real) > 0))
        if visible.packs is not None:
            packs = ops.cast(visible.packs, "int32")
            same = ops.equal(ops.expand_dims(own(packs), 2), ops.expand_dims(around(packs), 1))  # (B n, w, 2 w or 3 w)
            attention_mask = ops.logical_and(
                attention_mask, ops.logical_and(ops.expand_dims(same, 1), row(around(packs) > 0))
            )
        parts = own(query), around(key), around(value), attention_mask
        if extra is not None:
            parts = beside(*parts, tuple(ops.repeat(each, count, axis=0) for each in extra))
        mixed = attend(*parts, dropout=self.dropout, training=training)
        return ops.reshape(mixed, (batch, count * size, *mixed.shape[2:]))[:, :length]

    def scores(self, x, visible=None):
        length = ops.shape(x)[1]
        attention_mask = self.narrow_visible(self.supported(visible)).dense(length, length)
        return attention_scores(self.query(x), self.key(x), attention_mask)

    def start(self, batch, length: int):
        shape = (batch, min(self.window, length), self.num_heads, self.head_dim)
        return ops.zeros(shape, self.compute_dtype), ops.zeros(shape, self.compute_dtype)

    def step(self, x, past, position):
        length, slots = x.shape[1], past[0].shape[1]
        query = self.query(x)
        key, value = (ops.concatenate([old, new], axis=1) for old, new in zip(past, self.project(x), strict=True))
        real = ops.expand_dims(ops.arange(slots + length, dtype="int32") >= slots - position, 0)  # (1, w + L)
        visible = Visible(padding=real, causal=True, window=self.window)
        if length <= slots:
            attention_mask = visible.dense(
                slots + ops.arange(length, dtype="int32"), slots + length
            )  # (1, 1, L, w + L)
            mixed = attend(query, key, value, attention_mask)
        else:  # a prompt: mixed as a text that begins with the cached tokens
            query = ops.pad(query, ((0, 0), (slots, 0), (0, 0), (0, 0)))
            mixed = self.mix(query, key, value, visible)[:, slots:]
        return self.merge(mixed), (key[:, length:], value[:, length:])


def beside(query, key, value, attention_mask, extra):
    """Returns arguments of `attend` with further keys that are seen by all queries of a row where they are there.

    Args:
        attention_mask: bool (B or 1, 1, L, S).
        extra: keys and values (B, g, H, K), and bool (B, g).
    """
    keys, values, there = extra
    length = ops.shape(query)[1]
    there = ops.broadcast_to(row(there), (ops.shape(there)[0], 1, length, ops.shape(there)[1]))
    shape = (ops.shape(query)[0], 1, length, ops.shape(key)[1])
    attention_mask = ops.concatenate([ops.broadcast_to(attention_mask, shape), there], axis=3)
    return query, ops.concatenate([key, keys], axis=1), ops.concatenate([value, values], axis=1), attention_mask
