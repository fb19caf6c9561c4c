"""What a query may see, as a value: networks and objectives say it, mixers make of it what they need."""

import dataclasses
from typing import Any

from keras import ops


@dataclasses.dataclass(frozen=True, eq=False)
class Visible:
    """A query sees the keys that all of these fields allow; None allows all.

    Keras takes it for one argument without tensors, so it passes through layers as it is. No field has a gradient.

    Attributes:
        padding: bool (B, S), True on keys that are real tokens.
        causal: keys up to the query itself.
        packs: int (B, S), the number of the example that a token belongs to, 0 on padding: keys of its own example.
        prefix: int (B,), where it is causal: also the first so many keys.
        window: keys at a distance of at most so many, on each side.
        global_ids: int (B, S), where there is a window: tokens above 0 see all keys, and all queries see them.
        order: int (B, S), where each token stands in a factorisation (XLNet): keys whose number is not above its own.
    """

    padding: Any = None
    causal: bool = False
    packs: Any = None
    prefix: Any = None
    window: int | None = None
    global_ids: Any = None
    order: Any = None

    def given(self) -> frozenset[str]:
        """The names of the fields that restrict something."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return frozenset(name for name, value in values.items() if value is not None and value is not False)

    def dense(self, queries, keys: int):
        """As a tensor, for mixers that compare every query with every key.

        Args:
            queries: L, where they are the first tokens of the text; or their positions, int (L,).
            keys: S.

        Returns:
            bool, broadcastable to (B, H, L, S): of the size that the fields need, (B, 1, 1, S) for padding alone. None where
            everything is visible.
        """
        positions = ops.arange(queries, dtype="int32") if _is_number(queries) else queries  # (L,)
        query, key = ops.expand_dims(positions, 1), ops.expand_dims(ops.arange(keys, dtype="int32"), 0)
        parts = []
        if self.causal:
            before = _plane(key <= query)  # (1, 1, L, S)
            if self.prefix is not None:
                first = ops.cast(ops.expand_dims(self.prefix, 1), "int32")  # (B, 1)
                before = ops.logical_or(before, row(key < first))
            parts.append(before)
        if self.window is not None:
            near = _plane(ops.abs(query - key) <= self.window)  # (1, 1, L, S)
            if self.global_ids is not None:
                marked = self.global_ids > 0  # (B, S)
                near = ops.logical_or(near, ops.logical_or(row(marked), _column(self._of(queries, marked))))
            parts.append(near)
        if self.order is not None:
            parts.append(ops.expand_dims(_beside(self._of(queries, self.order), self.order, ops.greater_equal), 1))
        if self.packs is not None:
            parts.append(ops.expand_dims(_beside(self._of(queries, self.packs), self.packs, ops.equal), 1))
            parts.append(row(self.packs > 0))
        if self.padding is not None:
            parts.append(row(ops.cast(self.padding, "bool")))
        attention_mask = None
        for part in parts:
            attention_mask = part if attention_mask is None else ops.logical_and(attention_mask, part)
        return attention_mask

    @staticmethod
    def _of(queries, values):
        """Of values of keys (B, S) those of the queries, (B, L)."""
        return values[:, :queries] if _is_number(queries) else ops.take(values, queries, axis=1)


def _is_number(x) -> bool:
    """Whether it is a whole number, or a tensor of one."""
    return len(getattr(x, "shape", ())) == 0


def _plane(x):
    """(L, S) -> (1, 1, L, S)"""
    return ops.expand_dims(ops.expand_dims(x, 0), 0)


def row(x):
    """(B, S) -> (B, 1, 1, S): of every query."""
    return ops.expand_dims(ops.expand_dims(x, 1), 1)


def _column(x):
    """(B, L) -> (B, 1, L, 1)"""
    return ops.expand_dims(ops.expand_dims(x, 1), 3)


def _beside(queries, keys, compare):
    """(B, L) and (B, S) -> bool (B, L, S)"""
    return compare(ops.expand_dims(queries, 2), ops.expand_dims(keys, 1))
