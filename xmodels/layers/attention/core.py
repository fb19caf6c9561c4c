"""Scaled dot-product attention (Vaswani et al., 2017, equation 1) and the projections around it."""

import math

import keras
from keras import ops

from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import Initialization

# Added to the scores of masked keys. Finite, so that a row without any visible key does not give NaN; within the range of float16.
HIDDEN = -3e4


def head_dim_of(hidden_dim: int, num_heads: int) -> int:
    """Returns the width of one head. Raises a ValueError if `hidden_dim` is not a multiple of `num_heads`."""
    if hidden_dim % num_heads:
        raise ValueError(
            "`hidden_dim` must be a multiple of `num_heads`, so that every head gets the same width. "
            f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}."
        )
    return hidden_dim // num_heads


class HeadProjection(keras.layers.EinsumDense):
    """An `EinsumDense` from (B, L, ...) to (B, L, ...), computed as one product of two matrices.

    Keras computes it as a batch of products, for which the gradient of the kernel is computed as B kernels that are then added.
    """

    def call(self, x):
        leading, inner = ops.shape(x)[:2], x.shape[2:]
        width = math.prod(inner)
        kernel = ops.reshape(self.kernel, (width, -1))  # (inner, outer)
        y = ops.matmul(ops.reshape(x, (-1, width)), kernel)
        if self.bias is not None:
            y = ops.add(y, ops.reshape(self.bias, (-1,)))
        return ops.reshape(y, (*leading, *self.kernel.shape[len(inner) :]))


def split_heads(
    num_heads: int, head_dim: int, name: str, initialization: Initialization, use_bias: bool = True
) -> HeadProjection:
    """Returns a projection (B, L, D) -> (B, L, H, K)."""
    return HeadProjection(
        "bld,dhk->blhk",
        output_shape=(None, num_heads, head_dim),
        bias_axes="hk" if use_bias else None,
        kernel_initializer=initialization.inner(),
        name=name,
    )


def merge_heads(hidden_dim: int, initialization: Initialization, use_bias: bool = True) -> HeadProjection:
    """Returns a projection (B, L, H, K) -> (B, L, D)."""
    return HeadProjection(
        "blhk,hkd->bld",
        output_shape=(None, hidden_dim),
        bias_axes="d" if use_bias else None,
        kernel_initializer=initialization.residual(),
        name="merge",
    )


def attention_probabilities(query, key, attention_mask=None, bias=None, scale: float | None = None):
    """Returns softmax(scale q kT + bias), the attention probabilities; arguments as of `attention_scores`.

    Returns:
        (B, H, L, S) float32, summing to one over the keys. The softmax is computed in float32 under every policy.
    """
    return ops.softmax(attention_scores(query, key, attention_mask, bias, scale), axis=-1)


def attention_scores(query, key, attention_mask=None, bias=None, scale: float | None = None):
    """Returns scale q kT + bias, what the softmax of attention reads.

    Args:
        query: (B, L, H, K).
        key: (B, S, H, K).
        attention_mask: bool, broadcastable to (B, H, L, S), True where a query may attend to a key; None for everywhere.
        bias: broadcastable to (B, H, L, S), added to the scores.
        scale: factor of the dot products; by default 1 / sqrt(K).

    Returns:
        (B, H, L, S) float32, below `HIDDEN` / 2 where a query may not attend to a key.
    """
    scores = ops.einsum("blhk,bshk->bhls", query * _scale(query, scale), key)
    return _masked(scores, attention_mask, bias)


def _scale(query, scale: float | None):
    return ops.cast(query.shape[-1] ** -0.5 if scale is None else scale, query.dtype)


def _masked(scores, attention_mask, bias):
    """Returns scores (B, H, L, S) with the bias, and low where the mask hides a key, float32."""
    scores = ops.cast(scores, "float32")
    if bias is not None:
        scores = scores + ops.cast(bias, "float32")
    if attention_mask is not None:
        scores = scores + (1.0 - ops.cast(attention_mask, "float32")) * HIDDEN  # of the mask's size, often one row
    return scores


def attend(
    query, key, value, visible=None, bias=None, scale: float | None = None, dropout=None, training=None
):  # fmt: skip
    """Returns softmax(scale q kT + bias) v, with dropout on the probabilities.

    Args:
        query, key, value: (B, L, H, K), (B, S, H, K), (B, S, H, K).
        visible: which keys a query may attend to: a `Visible`, or a bool tensor as its `dense` returns. None for all.
        bias, scale: see `attention_probabilities`.
        dropout: a layer, or None.
        training: passed to `dropout`.

    Returns:
        (B, L, H, K)
    """
    if isinstance(visible, Visible):
        visible = visible.dense(ops.shape(query)[1], ops.shape(key)[1])
    probabilities = ops.cast(attention_probabilities(query, key, visible, bias, scale), value.dtype)
    if dropout is not None:
        probabilities = dropout(probabilities, training=training)
    return ops.einsum("bhls,bshk->blhk", probabilities, value)


def heads_first(x):
    """Returns (B, S, H, K) -> (B, H, S, K)"""
    return ops.transpose(x, (0, 2, 1, 3))


def attend_to_kept(query, key, value, attention_mask=None, bias=None, scale: float | None = None):
    """Returns `attend` for decoding, with cached keys and values (B, H, S, K). The query and the result are (B, L, H, K)."""
    scores = ops.einsum("bhlk,bhsk->bhls", heads_first(query * _scale(query, scale)), key)
    shares = ops.cast(ops.softmax(_masked(scores, attention_mask, bias), axis=-1), value.dtype)
    return heads_first(ops.einsum("bhls,bhsk->bhlk", shares, value))


def pad_tokens(x, missing):
    """Appends so many zeros to each row: (B, L, ...) -> (B, L + missing, ...). None stays None."""
    return x if x is None else ops.pad(x, [(0, 0), (0, missing), *([(0, 0)] * (len(x.shape) - 2))])
