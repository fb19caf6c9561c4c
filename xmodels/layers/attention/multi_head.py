"""Multi-head self-attention (Vaswani et al., 2017, section 3.2.2)."""

import keras

from xmodels.layers.attention.core import attend, attention_probabilities, head_dim_of, merge_heads, split_heads
from xmodels.layers.dropout import Dropout


class MultiHeadAttention(keras.layers.Layer):
    """Self-attention of H heads.

    Call arguments:
        x: (B, L, D).
        attention_mask: bool, broadcastable to (B, H, L, L), True where a query may look.

    Returns:
        (B, L, D)
    """

    def __init__(self, num_heads: int, hidden_dim: int, dropout: float = 0.0, stddev: float = 0.02, **kwargs):
        super().__init__(**kwargs)
        head_dim = head_dim_of(hidden_dim, num_heads)
        self.query, self.key, self.value = (
            split_heads(num_heads, head_dim, name, stddev) for name in ("query", "key", "value")
        )
        self.merge = merge_heads(hidden_dim, stddev)
        self.dropout = Dropout(dropout)

    def call(self, x, attention_mask=None, training=None):
        query, key, value = self.query(x), self.key(x), self.value(x)  # (B, L, H, K)
        return self.merge(attend(query, key, value, attention_mask, self.dropout, training))

    def probabilities(self, x, attention_mask=None):
        """(B, L, D) -> (B, H, L, L): the attention map, for pictures and for tests."""
        return attention_probabilities(self.query(x), self.key(x), attention_mask)
