"""Attention masks as values: networks and objectives describe which keys are visible, and mixers apply it in their own way."""

import dataclasses
from typing import Any

from keras import ops


@dataclasses.dataclass(frozen=True, eq=False)
class Visible:
    """Which keys each query may attend to: those that all of these fields allow. A field that is None (or False) allows all.

    Keras treats it as one argument without tensors, so layers pass it on unchanged. No field has a gradient.

    Attributes:
        padding: bool (B, S), True on real tokens: only these keys are allowed.
        causal: allows keys up to the query itself.
        packs: int (B, S), the number of the example of each token, 0 on padding: allows keys of the query's own example.
        prefix: int (B,), with `causal`: also allows so many keys at the beginning.
        window: allows keys at a distance of at most so many, on each side.
        global_ids: int (B, S), with `window`: tokens above 0 may attend to all keys, and all queries to them.
        order: int (B, S), the place of each token in a factorisation order (XLNet): allows keys whose place is not above the
            query's.
    """

    padding: Any = None
    causal: bool = False
    packs: Any = None
    prefix: Any = None
    window: int | None = None
    global_ids: Any = None
    order: Any = None

    def given(self) -> frozenset[str]:
        """Returns the names of the fields that are set."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return frozenset(name for name, value in values.items() if value is not None and value is not False)

    def dense(self, queries, keys: int):
        """Returns the mask as a tensor, for mixers that compare every query with every key.

        Args:
            queries: L if the queries are the first tokens of the text; or their positions, int (L,).
            keys: S.

        Returns:
            bool, broadcastable to (B, H, L, S), True where a query may attend to a key, as small as the fields allow:
            (B, 1, 1, S) for padding alone. None if no field is set.
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
        """Returns the values of the queries, (B, L), given those of the keys, (B, S)."""
        return values[:, :queries] if _is_number(queries) else ops.take(values, queries, axis=1)


def _is_number(x) -> bool:
    """Returns whether x is a number or a scalar tensor."""
    return len(getattr(x, "shape", ())) == 0


def _plane(x):
    """Returns (L, S) -> (1, 1, L, S)"""
    return ops.expand_dims(ops.expand_dims(x, 0), 0)


def row(x):
    """Returns (B, S) -> (B, 1, 1, S), the same for every query."""
    return ops.expand_dims(ops.expand_dims(x, 1), 1)


def _column(x):
    """Returns (B, L) -> (B, 1, L, 1)"""
    return ops.expand_dims(ops.expand_dims(x, 1), 3)


def _beside(queries, keys, compare):
    """Compares each query with each key: (B, L) and (B, S) -> bool (B, L, S)."""
    return compare(ops.expand_dims(queries, 2), ops.expand_dims(keys, 1))
