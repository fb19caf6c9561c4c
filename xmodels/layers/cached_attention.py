"""Softmax attention with a cache of keys and values, for decoding."""

from typing import ClassVar

from keras import ops

from xmodels.layers.attention.core import attend_to_kept, attention_scores, heads_first
from xmodels.layers.attention.places import (
    attention_mask_from,
    positions_of,
    positions_of_slots,
    slot_of,
)
from xmodels.layers.attention.visible import Visible
from xmodels.layers.attention.writing import write_at
from xmodels.layers.mixers import ProjectedMixer


class CachedAttention(ProjectedMixer):
    """Caches the keys and values of all tokens, (B, H, S, K) each: heads come first, so that each head's are contiguous.

    Class attributes:
        scale: factor of the dot products; None for 1 / sqrt(K).
    """

    shares_past = True
    scale: ClassVar[float | None] = None

    def bias(self, queries, keys):
        """Returns what is added to the scores of queries at positions (L,) and keys at positions (S,): (1, H, L, S), or None.

        Mixers with `places_texts` add nothing, as their positions may be those of each text.
        """
        return None

    def start(self, batch, length: int):
        shape = (batch, self.num_heads, length, self.head_dim)
        return ops.zeros(shape, self.compute_dtype), ops.zeros(shape, self.compute_dtype)

    def keep(self, x):
        """Returns the keys and values of x as `attend_to_kept` takes them: (B, S, D) -> (B, H, S, K) each."""
        return tuple(heads_first(each) for each in self.project(x))

    def attend_to_kept(self, x, kept, visible: Visible):
        """Attends from x (B, L, D) to `kept`, the keys and values that `keep` returns: (B, L, D)."""
        attention_mask = self.supported(visible).dense(ops.shape(x)[1], ops.shape(kept[0])[2])
        return self.merge(attend_to_kept(self.query(x), *kept, attention_mask, scale=self.scale))

    def step(self, x, past, place):
        past = tuple(write_at(old, new, slot_of(place)) for old, new in zip(past, self.keep(x), strict=True))
        length, slots = ops.shape(x)[1], ops.shape(past[0])[2]
        bias = self.bias(positions_of(place, length), positions_of_slots(place, slots))
        return self.merge(
            attend_to_kept(self.query(x), *past, attention_mask_from(place, length, slots), bias, self.scale)
        ), past


class MaskedAttention(CachedAttention):
    """Full attention under a mask of places. Subclasses compute it in their own way, and define `mask`."""

    def mask(self, queries, keys: int, visible: Visible):
        """Returns which keys the first tokens of a text attend to, bool (B or 1, 1, L, S)."""
        raise TypeError(f"{type(self).__name__} must define `mask`.")

    def reach(self, length):
        return self.mask(length, length, Visible())[0]

    def scores(self, x, visible=None):
        length = ops.shape(x)[1]
        return attention_scores(self.query(x), self.key(x), self.mask(length, length, self.supported(visible)))
