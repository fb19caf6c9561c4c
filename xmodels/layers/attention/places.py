"""The place of tokens during decoding, which `decode` and `step` take: a position in the text, or `Beams`.

A position is an integer, that of the first of L consecutive tokens.
"""

import dataclasses
from typing import Any

from keras import ops

from xmodels.layers.attention.visible import Visible


@dataclasses.dataclass(frozen=True, eq=False)
class Beams:
    """The place of the next token of each of K beams, which share one cache `past` of S slots.

    The cache holds the tokens of all beams, including discarded ones; each beam attends to its own tokens only. Texts of different
    lengths stand side by side where each has a position of its own; a text without beams is one beam.

    Attributes:
        position: int () or, for networks with `places_texts`, (B,): the position of these tokens in their texts.
        slot: int (), the slot of the first of them; the others follow.
        seen: bool (B, K, S), the slots that each beam attends to, including its own new one.
        positions: int (S,), the position in the text of the token in each slot; None where each text has its own.
    """

    position: Any
    slot: Any
    seen: Any
    positions: Any = None


def positions_of(place, length: int):
    """Returns the positions of the L tokens at a place, int (L,); (B, L) where each text has its own."""
    if isinstance(place, Beams):
        each = ops.expand_dims(place.position, -1)  # (1,) or (B, 1)
        return ops.broadcast_to(each, (*ops.shape(each)[:-1], length))
    return place + ops.arange(length, dtype="int32")


def slot_of(place):
    """Returns the slot of the first of the tokens at a place."""
    return place.slot if isinstance(place, Beams) else place


def attention_mask_from(place, length: int, slots: int):
    """Returns which slots the tokens at a place attend to: bool, broadcastable to (B, H, L, S)."""
    if isinstance(place, Beams):
        return ops.expand_dims(place.seen, 1)
    return Visible(causal=True).dense(positions_of(place, length), slots)


def positions_of_slots(place, slots: int):
    """Returns the positions of the tokens in the slots, int (S,)."""
    return place.positions if isinstance(place, Beams) else ops.arange(slots, dtype="int32")
