"""Sparse attention in two hops, strided or fixed: the Sparse Transformer (Child et al., 2019, arXiv 1904.10509)."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from keras import ops

from xmodels.layers.attention.core import HIDDEN, attend_to_kept, attention_probabilities, pad_tokens
from xmodels.layers.attention.places import attention_mask_from, positions_of, positions_of_slots, slot_of
from xmodels.layers.attention.writing import write_at
from xmodels.layers.cached_attention import CachedAttention
from xmodels.layers.mixers import Numbers, number

FIXED, STRIDED = "fixed", "strided"
INTERLEAVED, MERGED, HEADS = "interleaved", "merged", "heads"


@dataclasses.dataclass(frozen=True)
class SparseNumbers(Numbers):
    """The numbers of `SparseAttention`; section 4 of the paper."""

    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "pattern": (FIXED, STRIDED), "combine": (INTERLEAVED, MERGED, HEADS)
    }  # fmt: skip
    of_no_weight: ClassVar[frozenset[str]] = frozenset({"pattern", "combine", "stride", "summary"})
    pattern: str = number(
        "fixed",
        "what a token sees. fixed: its block, and the last tokens of each block (texts). strided: the tokens just before it, and "
        "every stride-th one (images, sounds)",
    )
    stride: int = number(128, "the length of a block, about the root of the length of a text")
    summary: int = number(8, "tokens at the end of a block that later blocks attend to, with the pattern fixed")
    combine: str = number(
        "merged",
        "who has the two halves of a pattern. merged: each head has both. interleaved: layers have them in turn. heads: half of "
        "the heads of a layer each",
    )

    def __post_init__(self):
        if self.pattern == FIXED and self.summary > self.stride:
            raise ValueError(
                f"`summary` must be at most `stride`. Received: summary={self.summary}, stride={self.stride}."
            )


@dataclasses.dataclass(frozen=True)
class Part:
    """One half of a pattern: groups of queries, each with keys of its own.

    Attributes:
        sees: tells by positions whether a query may attend to a key, besides that no key may lie behind it.
        queries: arranges (B, L, ...) into groups (B, g, m, ...), for L a multiple of the stride.
        back: the inverse of `queries`.
        keys: arranges (B, L, ...) into the keys of each group, (B, g, s, ...).
    """

    sees: Callable[[Any, Any], Any]
    queries: Callable[[Any], Any]
    back: Callable[[Any], Any]
    keys: Callable[[Any], Any]


def blocks(x, size: int):
    """Returns (B, L, ...) -> (B, L / l, l, ...)."""
    return ops.reshape(x, (ops.shape(x)[0], -1, size, *ops.shape(x)[2:]))


def in_line(x):
    """Returns the inverse of `blocks`: (B, g, m, ...) -> (B, L, ...)."""
    return ops.reshape(x, (ops.shape(x)[0], -1, *ops.shape(x)[3:]))


def window(size: int) -> Part:
    """Returns the tokens of the last `size` positions, from blocks that see themselves and the one before."""

    def keys(x):
        own = blocks(x, size)
        before = ops.concatenate([ops.zeros_like(own[:, :1]), own[:, :-1]], axis=1)
        return ops.concatenate([before, own], axis=2)

    return Part(lambda query, key: query - key < size, lambda x: blocks(x, size), in_line, keys)


def column(size: int) -> Part:
    """Returns the tokens at distances that are multiples of `size`."""

    def arrange(x):
        return ops.swapaxes(blocks(x, size), 1, 2)

    return Part(
        lambda query, key: ops.equal((query - key) % size, 0),
        arrange,
        lambda x: in_line(ops.swapaxes(x, 1, 2)),
        arrange,
    )


def block(size: int) -> Part:
    """Returns the tokens of the same block of `size`."""
    return Part(
        lambda query, key: ops.equal(query // size, key // size),
        lambda x: blocks(x, size),
        in_line,
        lambda x: blocks(x, size),
    )


def summaries(size: int, count: int) -> Part:
    """Returns the last `count` tokens of every block of `size`."""

    def keys(x):
        return ops.expand_dims(in_line(blocks(x, size)[:, :, size - count :]), 1)

    return Part(lambda query, key: key % size >= size - count, lambda x: ops.expand_dims(x, 1), lambda x: x[:, 0], keys)


class SparseAttention(CachedAttention):
    """Softmax attention to a fixed set of earlier tokens, from which every earlier token is reached in two layers, in O(L sqrt(L)).

    Strided: the last l tokens, and all at a distance of multiples of l. Fixed: the tokens of the own block of l, and the last c of
    each block. Merged, a key that is in both sets counts once. Interleaved layers begin with the first set; two layers in the
    other order would not reach all tokens with the pattern `fixed`. A query without any key takes nothing.

    The cache for decoding holds all keys and values.

    Args:
        parts: which of the two sets each head attends to, a tuple of 0 and 1 for each head, or for all.
        pattern, stride, summary: as in `SparseNumbers`. Others as in `ProjectedMixer`.
    """

    numbers = SparseNumbers
    supports = frozenset({"padding", "causal", "packs"})
    requires = frozenset({"causal"})

    def __init__(self, *args, pattern: str, stride: int, summary: int, parts: tuple[tuple[int, ...], ...], **kwargs):
        super().__init__(*args, **kwargs)
        self.stride, self.parts = stride, parts
        self.pattern = (
            (block(stride), summaries(stride, summary)) if pattern == FIXED else (window(stride), column(stride))
        )

    @classmethod
    def for_block(cls, config, initialization, index=0, shared=None):
        numbers, heads = config.mixer_numbers, config.num_heads
        parts = {
            MERGED: ((0, 1),) * heads,
            INTERLEAVED: ((index % 2,),) * heads,
            HEADS: tuple((int(head >= (heads + 1) // 2),) for head in range(heads)),
        }[numbers.combine]
        sizes = heads, config.hidden_dim, config.attention_dropout, initialization
        own = {"pattern": numbers.pattern, "stride": numbers.stride, "summary": numbers.summary}
        return cls(*sizes, parts=parts, **own)

    @classmethod
    def keys_per_query(cls, config, length):
        numbers = config.mixer_numbers
        count = -(-length // numbers.stride)
        near, far = (1, numbers.summary) if numbers.pattern == FIXED else (2, 1)
        return min(length, near * numbers.stride + far * count)

    def mix(self, query, key, value, visible, training=None):
        length = ops.shape(query)[1]
        missing = -length % self.stride
        text = Text(length + missing, pad_tokens(visible.padding, missing), pad_tokens(visible.packs, missing))
        query, key, value = (pad_tokens(x, missing) for x in (query, key, value))
        mixed = []
        for parts in sorted(set(self.parts)):  # heads that attend to the same sets together
            heads = [head for head, own in enumerate(self.parts) if own == parts]
            taken = slice(heads[0], heads[-1] + 1)
            mixed.append(
                self.mix_heads(parts, query[:, :, taken], key[:, :, taken], value[:, :, taken], text, training)
            )
        return ops.concatenate(mixed, axis=2)[:, :length]

    def mix_heads(self, parts, query, key, value, text: "Text", training):
        """Returns one softmax over the keys of these parts, times their values: (B, L, H, K) each -> (B, L, H, K)."""
        heads = query.shape[2]
        # Each head is a text of its own: heads that stand between tokens and features cost more than the products themselves.
        query, key, value = (_apart(x) for x in (query * query.shape[-1] ** -0.5, key, value))  # (B H, L, K)
        scores, masks, earlier = [], [], None
        for part in (self.pattern[index] for index in parts):
            grouped = ops.einsum("bgmk,bgsk->bgms", part.queries(query), part.keys(key))
            scores.append(part.back(grouped))  # (B H, L, s)
            masks.append(part.back(text.mask(part, earlier)))  # (B, L, s)
            earlier = part
        mask = ops.expand_dims(ops.concatenate(masks, axis=-1), 1)
        weights = softmax_of_some(_beside(ops.concatenate(scores, axis=-1), heads), mask)  # (B, H, L, S)
        weights = self.dropout(ops.cast(weights, value.dtype), training=training)
        weights = ops.reshape(weights, (-1, *ops.shape(weights)[2:]))
        mixed, first = 0.0, 0
        for part, each in zip((self.pattern[index] for index in parts), scores, strict=True):
            size = ops.shape(each)[-1]
            own = part.queries(weights[..., first : first + size])
            mixed = mixed + part.back(ops.einsum("bgms,bgsk->bgmk", own, part.keys(value)))
            first += size
        return ops.swapaxes(_beside(mixed, heads), 1, 2)

    def sees(self, query, key):
        """Returns which keys each head's queries may attend to by positions that broadcast: bool (H, ...)."""
        sets = [part.sees(query, key) for part in self.pattern]
        rows = [sets[parts[0]] if len(parts) == 1 else ops.logical_or(*sets) for parts in self.parts]
        return ops.stack([ops.logical_and(row, key <= query) for row in rows])

    def reach(self, length):
        places = ops.arange(length, dtype="int32")
        return self.sees(ops.expand_dims(places, 1), ops.expand_dims(places, 0))

    def probabilities(self, x, visible=None):
        length = ops.shape(x)[1]
        mask = ops.logical_and(self.supported(visible).dense(length, length), ops.expand_dims(self.reach(length), 0))
        weights = attention_probabilities(self.query(x), self.key(x), mask)
        return weights * ops.cast(mask, "float32")

    def step(self, x, past, place):
        past = tuple(write_at(old, new, slot_of(place)) for old, new in zip(past, self.keep(x), strict=True))
        length, slots = ops.shape(x)[1], ops.shape(past[0])[2]
        query, key = positions_of(place, length), positions_of_slots(place, slots)
        mask = ops.expand_dims(self.sees(ops.expand_dims(query, 1), ops.expand_dims(key, 0)), 0)
        mask = ops.logical_and(mask, attention_mask_from(place, length, slots))
        mixed = attend_to_kept(self.query(x), *past, mask)
        some = ops.cast(ops.any(mask, axis=-1), mixed.dtype)  # (B or 1, H, L)
        return self.merge(mixed * ops.expand_dims(ops.swapaxes(some, 1, 2), 3)), past


@dataclasses.dataclass(frozen=True)
class Text:
    """What decides, besides a pattern, which keys a query may attend to.

    Attributes:
        length: L, of the padded text.
        padding: bool (B, L), or None.
        packs: int (B, L), or None.
    """

    length: Any
    padding: Any
    packs: Any

    def mask(self, part: Part, earlier: Part | None):
        """Returns which keys of its group a query may attend to, bool (B or 1, g, m, s); not those that `earlier` has."""
        places = ops.expand_dims(ops.arange(self.length, dtype="int32"), 0)
        query, key = ops.expand_dims(part.queries(places), 3), ops.expand_dims(part.keys(places), 2)
        mask = ops.logical_and(part.sees(query, key), key <= query)
        if earlier:
            mask = ops.logical_and(mask, ops.logical_not(earlier.sees(query, key)))
        # The block before the first one is made of zeros, as padding is.
        real = ops.ones_like(places) if self.padding is None else ops.cast(self.padding, "int32")
        mask = ops.logical_and(mask, ops.expand_dims(part.keys(real), 2) > 0)
        if self.packs is not None:
            packs = ops.cast(self.packs, "int32")
            of_keys = ops.expand_dims(part.keys(packs), 2)
            same = ops.equal(ops.expand_dims(part.queries(packs), 3), of_keys)
            mask = ops.logical_and(mask, ops.logical_and(same, of_keys > 0))
        return mask


def _apart(x):
    """Returns (B, L, H, K) -> (B H, L, K)."""
    x = ops.swapaxes(x, 1, 2)
    return ops.reshape(x, (-1, *ops.shape(x)[2:]))


def _beside(x, heads: int):
    """Returns (B H, L, N) -> (B, H, L, N)."""
    return ops.reshape(x, (-1, heads, *ops.shape(x)[1:]))


def softmax_of_some(scores, mask):
    """Returns the softmax over the keys of a mask, float32, and 0 for queries without any."""
    mask = ops.cast(mask, "float32")
    return ops.softmax(ops.cast(scores, "float32") + (1.0 - mask) * HIDDEN, axis=-1) * mask
