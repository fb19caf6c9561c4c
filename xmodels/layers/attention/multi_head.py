"""Multi-head attention (Vaswani et al., 2017, section 3.2.2)."""

import keras

from xmodels.layers.attention.core import (
    attend,
    attention_probabilities,
    head_dim_of,
    merge_heads,
    split_heads,
    write_at,
)
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import Initialization


class MultiHeadAttention(keras.layers.Layer):
    """Attention of H heads: of a text to itself, or to a context.

    Call arguments:
        x: (B, L, D).
        attention_mask: bool, broadcastable to (B, H, L, S), True where a query may look.
        context: (B, S, D), what keys and values are made of; by default `x`.

    Returns:
        (B, L, D)
    """

    def __init__(
        self, num_heads: int, hidden_dim: int, dropout: float = 0.0, initialization: Initialization | None = None,
        use_bias: bool = True, **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        head_dim, initialization = head_dim_of(hidden_dim, num_heads), initialization or Initialization()
        self.query, self.key, self.value = (
            split_heads(num_heads, head_dim, name, initialization, use_bias) for name in ("query", "key", "value")
        )
        self.merge = merge_heads(hidden_dim, initialization, use_bias)
        self.dropout = Dropout(dropout)

    def call(self, x, attention_mask=None, context=None, training=None):
        return self.look(x, self.project(x if context is None else context), attention_mask, training)

    def project(self, x):
        """(B, S, D) -> keys and values, (B, S, H, K) each."""
        return self.key(x), self.value(x)

    def look(self, x, projected, attention_mask=None, training=None):
        """From (B, L, D) at what `project` has given."""
        return self.merge(attend(self.query(x), *projected, attention_mask, self.dropout, training))

    def step(self, x, past, position, attention_mask):
        """The next L tokens of a text of at most S, of which `past` holds keys and values, (B, S, H, K) each.

        Args:
            x: (B, L, D), of the tokens from `position` on.
            attention_mask: bool, broadcastable to (B, H, L, S).

        Returns:
            (B, L, D), and the keys and values with the new ones.
        """
        past = tuple(write_at(old, new, position) for old, new in zip(past, self.project(x), strict=True))
        return self.look(x, past, attention_mask), past

    def probabilities(self, x, attention_mask=None):
        """(B, L, D) -> (B, H, L, L): the attention map, for pictures and for tests."""
        return attention_probabilities(self.query(x), self.key(x), attention_mask)
