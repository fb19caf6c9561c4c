"""Axial attention: layers attend along the rows and the columns of a text in turn (Ho et al., 2019, arXiv 1912.12180, section 3)."""

import dataclasses
from typing import ClassVar

from keras import ops

from xmodels.layers.attention.core import HIDDEN, attend, pad_tokens
from xmodels.layers.attention.visible import Visible
from xmodels.layers.cached_attention import MaskedAttention
from xmodels.layers.mixers import Numbers, number


@dataclasses.dataclass(frozen=True)
class AxialNumbers(Numbers):
    """The numbers of `Axial`."""

    of_no_weight: ClassVar[frozenset[str]] = frozenset({"columns"})
    columns: int = number(64, "tokens of a row; the root of the length of texts costs least")


class Axial(MaskedAttention):
    """Softmax attention to the tokens of the own row, in layers of even number, or of the own column, in O(L * sqrt(L)).

    Two layers join any two tokens of a text. In causal attention a token sees only what stands before it in its row or column, so
    of earlier rows two layers show it the columns up to its own. (The paper shifts rows to show all of them.)

    Args:
        columns: C, the tokens of a row.
        along_columns: whether this layer attends along columns. Others as in `ProjectedMixer`.
    """

    numbers = AxialNumbers
    supports = frozenset({"padding", "causal"})

    def __init__(self, *args, columns: int, along_columns: bool, **kwargs):
        super().__init__(*args, **kwargs)
        self.columns, self.along_columns = columns, along_columns

    @classmethod
    def for_block(cls, config, initialization, index=0, shared=None):
        sizes = config.num_heads, config.hidden_dim, config.attention_dropout, initialization
        return cls(*sizes, columns=config.mixer_numbers.columns, along_columns=index % 2 == 1)

    @classmethod
    def keys_per_query(cls, config, length):
        columns = config.mixer_numbers.columns
        return min(length, max(columns, -(-length // columns)))

    def mix(self, query, key, value, visible, training=None):
        length, keys = query.shape[1], key.shape[1]
        if length is not None and length != keys:  # of the first tokens only
            attention_mask = self.mask(ops.shape(query)[1], ops.shape(key)[1], visible)
            return attend(query, key, value, attention_mask, dropout=self.dropout, training=training)
        (batch, length), columns = ops.shape(query)[:2], self.columns
        missing = -length % columns
        rows = (length + missing) // columns

        def lines(x):
            """Returns the rows of each text, or its columns, as texts: (B, L, ...) -> (B R, C, ...) or (B C, R, ...)."""
            x = ops.reshape(pad_tokens(x, missing), (batch, rows, columns, *x.shape[2:]))
            if self.along_columns:
                x = ops.transpose(x, (0, 2, 1, *range(3, len(x.shape))))
            return ops.reshape(x, (-1, rows if self.along_columns else columns, *x.shape[3:]))

        real = ops.ones((batch, length), "int32")
        if visible.padding is not None:
            real = real * ops.cast(visible.padding, "int32")
        size = rows if self.along_columns else columns
        near = Visible(lines(real) > 0, causal=visible.causal).dense(size, size)  # (B R or B C, 1, 1 or l, l)
        near = ops.logical_or(near, ops.eye(size, dtype="bool"))  # padding may stand in a line without any real token
        mixed = attend(lines(query), lines(key), lines(value), near, dropout=self.dropout, training=training)
        if self.along_columns:
            mixed = ops.reshape(mixed, (batch, columns, rows, *mixed.shape[2:]))
            mixed = ops.transpose(mixed, (0, 2, 1, 3, 4))
        return ops.reshape(mixed, (batch, rows * columns, *mixed.shape[-2:]))[:, :length]

    def line_of(self, positions):
        """Returns the number of the row or column of positions."""
        return positions % self.columns if self.along_columns else positions // self.columns

    def mask(self, queries, keys: int, visible: Visible):
        """Returns which keys the first tokens of a text attend to, bool (B or 1, 1, L, S). Each token sees itself."""
        query, key = ops.arange(queries, dtype="int32")[:, None], ops.arange(keys, dtype="int32")[None]
        same = ops.equal(self.line_of(query), self.line_of(key))[None, None]
        seen = visible.dense(queries, keys)
        return same if seen is None else ops.logical_or(ops.logical_and(same, seen), ops.equal(query, key))

    def bias(self, queries, keys):
        other = ops.not_equal(ops.expand_dims(self.line_of(queries), 1), ops.expand_dims(self.line_of(keys), 0))
        return ops.cast(other, "float32")[None, None] * HIDDEN
