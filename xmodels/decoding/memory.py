"""The caches of beams: one for each beam, or one that all beams of a text share, each attending to its own tokens.

A shared cache is neither kept K times nor reordered after each token, and each key is read once for all beams.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from xmodels.layers.attention.places import Beams


def side_by_side(beams: int, width: int, lengths, new_tokens: int, last: int) -> "Shared":
    """Returns the memory of beams that go on from the different lengths of their texts, for networks with `places_texts`.

    Args:
        beams: K.
        width: P, tokens that are read at once, of which each text has `lengths`, int (B,).
        new_tokens: most tokens that are read behind them.
        last: the last position that the network knows, at which texts stay that have reached it.
    """
    return Shared(beams, width + new_tokens * beams, width, lengths, last)


def memory_for(backbone, beams: int, length: int, known: int = 0, first=0) -> "Copies | Shared":
    """Returns the memory of a network's beams, for texts of `length` tokens, the first of which all beams have in common.

    Args:
        beams: K.
        known: a static lower bound of the number of common tokens, for shapes.
        first: the number of common tokens, int (), at least `known`.
    """
    if backbone.shares_past:
        return Shared(beams, known + (length - known) * beams, first)
    return Copies(beams, length)


@dataclasses.dataclass(frozen=True, eq=False)
class Copies:
    """A copy of `past` for each beam, B K rows, for networks without `shares_past`.

    Attributes:
        beams: K.
        slots: tokens of a text for which `past` has room.
    """

    beams: int
    slots: int

    def repeat_for_beams(self, rows):
        """Repeats tensors of B texts for their beams: B rows -> B K rows."""
        return keras.tree.map_structure(lambda x: ops.repeat(x, self.beams, axis=0), rows)

    def past_of(self, start: Callable, read: Callable, width: int):
        """Returns the past of B rows after reading `width` tokens at once.

        Args:
            start: the `start` of a network, as a function of the number of slots.
            read: a function of a past that returns the past after these tokens.
        """
        return read(start(self.slots))

    def begin(self, past, batch):
        """Returns the initial state of the beams, from the `past` of B rows."""
        return self.repeat_for_beams(past)

    def read(self, decode: Callable, tokens, state, position):
        """Decodes tokens int (B K,) at `position`: returns their states (B K, D) and the new state of the beams.

        Args:
            decode: the `decode` of a network.
        """
        states, state = decode(ops.expand_dims(tokens, 1), state, position)
        return states[:, 0], state

    def follow(self, state, parents):
        """Returns the state when the beams continue those with the indices `parents`, int (B, K)."""
        rows = rows_of(parents, self.beams)
        return keras.tree.map_structure(lambda x: ops.take(x, rows, axis=0), state)


@dataclasses.dataclass(frozen=True, eq=False)
class Shared:
    """One `past` for the K beams of a text, with K slots per position, and a mask of the slots that each beam attends to.

    Methods as in `Copies`.

    Attributes:
        beams: K.
        slots: S, the slots of `past`: at least `first`, and K for each position after them.
        first: int (), the number of tokens that the beams of a text have in common.
        lengths: int (B,), how many of the first slots hold tokens of each text; positions then count from there. None: all.
        last: the last position, with `lengths`.
    """

    beams: int
    slots: int
    first: Any = 0
    lengths: Any = None
    last: int | None = None

    def repeat_for_beams(self, rows):
        return rows

    def begin(self, past, batch):
        common = self.first if self.lengths is None else ops.reshape(self.lengths, (-1, 1, 1))
        known = ops.arange(self.slots, dtype="int32") < common
        return {"past": past, "seen": ops.broadcast_to(known, (batch, self.beams, self.slots))}

    def read(self, decode: Callable, tokens, state, position):
        slots, numbers = ops.arange(self.slots, dtype="int32"), ops.arange(self.beams, dtype="int32")
        number = position if self.lengths is not None else position - self.first
        slot = self.first + number * self.beams
        own = ops.equal(slots, ops.expand_dims(slot + numbers, 1))  # (K, S)
        seen = ops.logical_or(state["seen"], own)
        if self.lengths is None:
            positions = ops.where(slots < self.first, slots, self.first + (slots - self.first) // self.beams)
            place = Beams(position, slot, seen, positions)
        else:
            place = Beams(ops.minimum(self.lengths + number, self.last), slot, seen)
        states, past = decode(ops.reshape(tokens, (-1, self.beams)), state["past"], place)  # (B, K, D)
        return ops.reshape(states, (-1, states.shape[-1])), {"past": past, "seen": seen}

    def follow(self, state, parents):
        return {**state, "seen": gather_texts(state["seen"], parents)}

    def past_of(self, start: Callable, read: Callable, width: int):
        """Works as in `Copies`. The common tokens are read without the slots of the beams, which are then padded to the cache."""
        more = [[0, 0], [0, 0], [0, self.slots - width], [0, 0]]
        return keras.tree.map_structure(lambda x: ops.pad(x, more), read(start(width)))


def gather_texts(texts, index):
    """Gathers texts (B, N, T) by index (B, M): (B, M, T)."""
    number, length = ops.shape(texts)[1:]
    rows = ops.take(ops.reshape(texts, (-1, length)), rows_of(index, number), axis=0)
    return ops.reshape(rows, (*ops.shape(index), length))


def rows_of(index, number: int):
    """Returns the row numbers of index (B, M) if each of B texts has `number` rows: int (B M,)."""
    first = ops.expand_dims(ops.arange(ops.shape(index)[0], dtype="int32"), 1) * number
    return ops.reshape(first + ops.cast(index, "int32"), (-1,))
