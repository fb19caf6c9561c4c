"""Attention between sets: Set Transformer (Lee et al., 2019, arXiv 1810.00825).

Nothing here knows a position, so a permutation of the elements permutes the outputs, or changes nothing where they are pooled.
"""

import math

import keras
from keras import ops

from xmodels.layers.attention.core import HIDDEN, head_dim_of
from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm

EPSILON = 1e-5  # of the normalisations of the released code
XAVIER = "glorot_uniform"  # of inducing points and seeds


class SetAttentionBlock(Layer):
    """A multihead attention block, MAB(X, Y), as in the code that the authors released.

    The residual is the projected query, the scale is the root of the whole width, and the heads are concatenated without an output
    projection, so `x` may have another width than the block.

    Call arguments:
        x: (B, L, D_x), the queries.
        y: (B, S, D_y), keys and values.
        key_mask: bool (B, S), True on elements of `y` that exist; None if all do.

    Returns:
        (B, L, D)
    """

    def __init__(self, hidden_dim: int, num_heads: int, normalize: bool = False, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.head_dim = num_heads, head_dim_of(hidden_dim, num_heads)
        self.query, self.key, self.value, self.expand = (
            keras.layers.Dense(hidden_dim, name=name) for name in ("query", "key", "value", "expand")
        )
        self.norms = [LayerNorm(epsilon=EPSILON, name=f"norm_{index}") for index in range(2 * normalize)]
        self.dropout = Dropout(dropout)
        self.scale = 1.0 / math.sqrt(hidden_dim)

    def call(self, x, y, key_mask=None, training=None):
        query = self.query(x)  # (B, L, D)
        o = query + attend(query, self.key(y), self.value(y), self.num_heads, self.scale, key_mask)
        o = self.norms[0](o) if self.norms else o
        o = o + self.dropout(ops.relu(self.expand(o)), training=training)
        return self.norms[1](o) if self.norms else o


class PaperSetAttentionBlock(Layer):
    """The block of equations 6 and 7: LN(H + rFF(H)) with H = LN(X + Multihead(X, Y, Y)), which has an output projection and the usual
    scale. `x` has the width of the block. Arguments and result as of `SetAttentionBlock`.
    """

    def __init__(self, hidden_dim: int, num_heads: int, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, head_dim = num_heads, head_dim_of(hidden_dim, num_heads)
        self.query, self.key, self.value, self.merge, self.expand = (
            keras.layers.Dense(hidden_dim, name=name) for name in ("query", "key", "value", "merge", "expand")
        )
        self.norms = [LayerNorm(epsilon=EPSILON, name=f"norm_{index}") for index in range(2)]
        self.dropout = Dropout(dropout)
        self.scale = 1.0 / math.sqrt(head_dim)

    def call(self, x, y, key_mask=None, training=None):
        found = attend(self.query(x), self.key(y), self.value(y), self.num_heads, self.scale, key_mask)  # (B, L, D)
        h = self.norms[0](x + self.dropout(self.merge(found), training=training))
        return self.norms[1](h + self.dropout(ops.relu(self.expand(h)), training=training))


class SelfAttentionOfSet(Layer):
    """SAB(X) = MAB(X, X): each element looks at all, in O(L^2).

    Args:
        block: a built `SetAttentionBlock` or its like.
    """

    def __init__(self, block: keras.layers.Layer, **kwargs):
        super().__init__(**kwargs)
        self.block = block

    def call(self, x, key_mask=None, training=None):
        return self.block(x, x, key_mask=key_mask, training=training)


class InducedSetAttention(Layer):
    """ISAB(X) = MAB(X, MAB(I, X)): M trained inducing points look at the elements, which look at them, in O(L M).

    Args:
        inward, outward: the two blocks.
        num_inducing: M.
        hidden_dim: of the blocks.
    """

    def __init__(
        self, inward: keras.layers.Layer, outward: keras.layers.Layer, num_inducing: int, hidden_dim: int, **kwargs
    ):
        super().__init__(**kwargs)
        self.inward, self.outward = inward, outward
        self.inducing = self.add_weight(shape=(1, num_inducing, hidden_dim), initializer=XAVIER, name="inducing")

    def call(self, x, key_mask=None, training=None):
        points = repeat_points(self.inducing, x)  # (B, M, D)
        summary = self.inward(points, x, key_mask=key_mask, training=training)  # (B, M, D)
        return self.outward(x, summary, training=training)  # (B, L, D); inducing points are never masked


class SeedPooling(Layer):
    """PMA(Z): K trained seeds look at the elements. The order of the elements does not matter.

    Args:
        block: a `SetAttentionBlock` or its like.
        num_seeds: K.
        feedforward: of each element before it is looked at, as in the paper; None for none, as in the released code.
    """

    def __init__(
        self,
        block: keras.layers.Layer,
        num_seeds: int,
        hidden_dim: int,
        feedforward: keras.layers.Layer | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.block, self.feedforward = block, feedforward
        self.seeds = self.add_weight(shape=(1, num_seeds, hidden_dim), initializer=XAVIER, name="seeds")

    def call(self, z, key_mask=None, training=None):
        if self.feedforward is not None:
            z = self.feedforward(z)
        return self.block(repeat_points(self.seeds, z), z, key_mask=key_mask, training=training)  # (B, K, D)


def attend(query, key, value, num_heads: int, scale: float, key_mask=None):
    """Returns softmax(Q K^T scale) V of each head, the heads side by side.

    Args:
        query: (B, L, D).
        key, value: (B, S, D).
        key_mask: bool (B, S).

    Returns:
        (B, L, D)
    """
    query, key, value = (split(each, num_heads) for each in (query, key, value))  # (B, L or S, H, K)
    scores = ops.cast(ops.einsum("blhk,bshk->bhls", query, key), "float32") * scale
    if key_mask is not None:
        hidden = 1.0 - ops.cast(ops.cast(key_mask, "bool"), "float32")  # (B, S)
        scores = scores + ops.expand_dims(hidden * HIDDEN, (1, 2))
    # `ops.softmax` warns of an axis of size 1, which one seed rightly has.
    shares = ops.exp(scores - ops.logsumexp(scores, axis=-1, keepdims=True))  # (B, H, L, S)
    found = ops.einsum("bhls,bshk->blhk", ops.cast(shares, value.dtype), value)
    return ops.reshape(found, (*ops.shape(found)[:2], value.shape[2] * value.shape[3]))


def split(x, num_heads: int):
    """Returns (B, L, D) as (B, L, H, K)."""
    return ops.reshape(x, (*ops.shape(x)[:2], num_heads, x.shape[-1] // num_heads))


def repeat_points(points, x):
    """Returns trained points (1, M, D) for each set of `x`, (B, M, D)."""
    return ops.cast(ops.tile(points, (ops.shape(x)[0], 1, 1)), x.dtype)
