"""A small classifier on the states of one layer (Liu et al., 2020, section 3.1), and the uncertainty of its prediction."""

import math

import keras
from keras import ops

from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import GlorotUniform, glorot
from xmodels.layers.layer import Layer
from xmodels.layers.pooling import pooling_of
from xmodels.layers.poolings import PUBLISHED

WIDTH, NUM_HEADS = 128, 2  # of every branch, whatever the size of the network


class BranchClassifier(Layer):
    """Projects the states to `WIDTH`, applies self-attention, and classifies one state, by default that of the first token.

    The attention has neither a residual sum nor a norm. If only the first token is classified, only its query is computed.

    Args:
        num_labels: C.
        pooling: how the states are reduced to one, a name in `layers.poolings`.
        dropout: of the attention probabilities.

    Call arguments:
        x: (B, L, D), the states of a layer.
        padding_mask: bool (B, L), True on real tokens; padding is on the right.

    Returns:
        float32 logits (B, C)
    """

    def __init__(self, num_labels: int, pooling: str = PUBLISHED, dropout: float = 0.1, **kwargs):
        super().__init__(**kwargs)
        self.pools_first = pooling in (PUBLISHED, "first")
        self.state, self.pool = (None, None) if self.pools_first else pooling_of(pooling, WIDTH)
        self.narrow = dense(WIDTH, "tanh", "narrow")
        self.attention = MultiHeadAttention(NUM_HEADS, WIDTH, dropout, glorot(), name="attention")
        self.dense = dense(WIDTH, "tanh", "dense")
        self.head = dense(num_labels, None, "head")

    def call(self, x, padding_mask, training=None):
        x = self.narrow(x)  # (B, L, W)
        visible = Visible(padding_mask)
        if self.pools_first:
            state = self.attention(x[:, :1], visible=visible, context=x, training=training)[:, 0]  # (B, W)
        else:
            state = self.state(self.attention(x, visible=visible, training=training), padding_mask)
        return ops.cast(self.head(self.dense(state)), "float32")


def dense(width: int, activation: str | None, name: str) -> keras.layers.Dense:
    return keras.layers.Dense(width, activation, kernel_initializer=GlorotUniform(), name=name)


def uncertainty(logits):
    """Returns the entropy of the prediction divided by that of the uniform distribution (equation 5): logits (..., C) ->
    float32 (...).

    It is 0 if one class has all the probability and 1 if all have the same.

    Raises:
        ValueError: there are fewer than two classes.
    """
    classes = logits.shape[-1]
    if classes < 2:
        raise ValueError(f"Uncertainty needs at least 2 classes. Received: logits of shape {tuple(logits.shape)}.")
    log_probabilities = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    return -ops.sum(ops.exp(log_probabilities) * log_probabilities, axis=-1) / math.log(classes)


def leaves(uncertainties, speed):
    """Returns which texts exit, bool: those whose uncertainty is below `speed`. None do at speed 0, all do at speed 1."""
    return ops.logical_or(uncertainties < speed, speed >= 1.0)
