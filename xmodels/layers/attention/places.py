"""Where the tokens stand that a network reads while it writes: at a position of their text, or at one place of several beams.

`decode` and `step` take such a place: a whole number, the position of the first of L tokens that follow each other; or `Beams`.
"""

import dataclasses
from typing import Any

from keras import ops

from xmodels.layers.attention.visible import Visible


@dataclasses.dataclass(frozen=True, eq=False)
class Beams:
    """The next token of each of K beams, which share the past of their text.

    The past keeps the tokens of all beams, those that were given up too. Each beam sees its own.

    Attributes:
        position: int (), where these tokens stand in their texts.
        slot: int (), where the past keeps the first of them; the others follow.
        seen: bool (B, K, S), the slots that each sees, its own too.
        positions: int (S,), where the tokens of the slots stand in their texts.
    """

    position: Any
    slot: Any
    seen: Any
    positions: Any


def positions_of(place, length: int):
    """int (L,): the positions of the L tokens at a place."""
    if isinstance(place, Beams):
        return ops.broadcast_to(place.position, (length,))
    return place + ops.arange(length, dtype="int32")


def slot_of(place):
    """Where the past keeps the first of the tokens."""
    return place.slot if isinstance(place, Beams) else place


def attention_mask_from(place, length: int, slots: int):
    """bool, broadcastable to (B, H, L, S): the slots that the tokens at a place see."""
    if isinstance(place, Beams):
        return ops.expand_dims(place.seen, 1)
    return Visible(causal=True).dense(positions_of(place, length), slots)


def positions_of_slots(place, slots: int):
    """int (S,): the positions of what the past keeps."""
    return place.positions if isinstance(place, Beams) else ops.arange(slots, dtype="int32")
