"""What beams remember: each beam a past of its own, or all beams of a text one past, of which each sees its own tokens.

A past that is shared is neither kept K times nor sorted after each token, and each key is read once for all beams.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from xmodels.layers.attention.places import Beams


def memory_for(backbone, beams: int, length: int, known: int = 0, first=0) -> "Copies | Shared":
    """How the beams of a network remember texts of `length` tokens, the first of which they have in common.

    Args:
        known: so many at least, a number that shapes may have.
        first: so many, int (), at least `known`.
    """
    if backbone.shares_past:
        return Shared(beams, known + (length - known) * beams, first)
    return Copies(beams, length)


@dataclasses.dataclass(frozen=True, eq=False)
class Copies:
    """Pasts of B K rows, for networks that remember in their own way.

    Attributes:
        beams: K.
        slots: tokens of a text for which `past` has room.
    """

    beams: int
    slots: int

    def repeated(self, rows):
        """What the beams need of what a text has: tensors of B rows -> of B K rows."""
        return keras.tree.map_structure(lambda x: ops.repeat(x, self.beams, axis=0), rows)

    def past_of(self, start: Callable, read: Callable, width: int):
        """The past of B rows that have read `width` tokens at once.

        Args:
            start: that of a network, from the tokens for which there is room.
            read: what the past is once these tokens are read.
        """
        return read(start(self.slots))

    def begin(self, past, batch):
        """What they remember at first: `past` of B rows, as `decode` takes it."""
        return self.repeated(past)

    def read(self, decode: Callable, tokens, state, position):
        """The states (B K, D) of tokens (B K,), which all stand at `position`, and what is remembered then.

        Args:
            decode: that of a network.
        """
        states, state = decode(ops.expand_dims(tokens, 1), state, position)
        return states[:, 0], state

    def follow(self, state, parents):
        """What is remembered where the beams go on from those with the numbers `parents`, int (B, K)."""
        rows = rows_of(parents, self.beams)
        return keras.tree.map_structure(lambda x: ops.take(x, rows, axis=0), state)


@dataclasses.dataclass(frozen=True, eq=False)
class Shared:
    """One past for the K beams of a text, with K slots for each position, and of each beam which slots it sees.

    Attributes:
        beams: K.
        slots: S, as many as `past` has: at least `first`, and K for each position behind.
        first: int (), tokens that the beams of a text have in common.
    """

    beams: int
    slots: int
    first: Any = 0

    def repeated(self, rows):
        return rows

    def begin(self, past, batch):
        known = ops.arange(self.slots, dtype="int32") < self.first
        return {"past": past, "seen": ops.broadcast_to(known, (batch, self.beams, self.slots))}

    def read(self, decode: Callable, tokens, state, position):
        slots, numbers = ops.arange(self.slots, dtype="int32"), ops.arange(self.beams, dtype="int32")
        slot = self.first + (position - self.first) * self.beams
        own = ops.equal(slots, ops.expand_dims(slot + numbers, 1))  # (K, S)
        seen = ops.logical_or(state["seen"], own)
        positions = ops.where(slots < self.first, slots, self.first + (slots - self.first) // self.beams)
        place = Beams(position, slot, seen, positions)
        states, past = decode(ops.reshape(tokens, (-1, self.beams)), state["past"], place)  # (B, K, D)
        return ops.reshape(states, (-1, states.shape[-1])), {"past": past, "seen": seen}

    def follow(self, state, parents):
        return {**state, "seen": chosen(state["seen"], parents)}

    def past_of(self, start: Callable, read: Callable, width: int):
        """Queries of these tokens need not look at the room for all beams, which `layers.cached_attention` gets behind them."""
        more = [[0, 0], [0, 0], [0, self.slots - width], [0, 0]]
        return keras.tree.map_structure(lambda x: ops.pad(x, more), read(start(width)))


def chosen(texts, index):
    """Texts (B, N, T) by index (B, M): (B, M, T)."""
    number, length = ops.shape(texts)[1:]
    rows = ops.take(ops.reshape(texts, (-1, length)), rows_of(index, number), axis=0)
    return ops.reshape(rows, (*ops.shape(index), length))


def rows_of(index, number: int):
    """int (B M,): the rows of index (B, M) where each of B texts has so many rows."""
    first = ops.expand_dims(ops.arange(ops.shape(index)[0], dtype="int32"), 1) * number
    return ops.reshape(first + ops.cast(index, "int32"), (-1,))
