"""The biattentive classification network, which compares two texts, or a text with itself (McCann et al., 2017, section 5)."""

import functools

import keras
from keras import ops

from xmodels.layers.batch_norm import BatchNorm
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import fan_in_uniform, uniform
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.layers.recurrent import TextsBidirectional

HIDDEN = -1e9  # replaces the scores and states of what does not count
NORMS = {"layer": functools.partial(LayerNorm, epsilon=1e-5), "batch": BatchNorm}


class BiattentiveNetwork(Layer):
    """Reads the features of one or two texts, and returns a vector for both.

    Both texts stand in one row. A BiLSTM of the task reads each; each of its states attends to those of the other text; a second
    BiLSTM reads states, differences and products; each text is pooled; and three maxout layers read both pools. A single text stands
    for both, so it attends to itself. Weights begin as in PyTorch, with which the paper's were trained: norms behind larger ones let
    them learn slowly.

    Args:
        hidden_dim: units of each direction of both BiLSTMs, and of the first layer.
        dropout: of features and of the inputs of maxout layers.
        reduction: by how much each of the first two maxout layers is narrower than its input.
        pieces: of maxout.
        norm: of what leaves a maxout layer, one of `NORMS`: `batch` is the paper's; `layer` learns more slowly, but a text then has
            the same answer whatever else a batch of the training holds.

    Call arguments:
        states: (B, L, D).
        padding_mask: bool (B, L), True on real tokens; padding is on the right.
        segment_ids: int (B, L), 1 on the tokens of the second text.

    Returns:
        (B, 16 * hidden_dim / reduction ** 3)
    """

    tells_texts = True

    def __init__(
        self, hidden_dim: int = 300, dropout: float = 0.2, reduction: int = 4, pieces: int = 4, norm: str = "batch", **kwargs
    ):  # fmt: skip
        super().__init__(**kwargs)
        self.read = keras.layers.Dense(hidden_dim, "relu", kernel_initializer=fan_in_uniform(), name="read")  # f
        make = uniform(hidden_dim**-0.5)
        self.encoder = TextsBidirectional(hidden_dim, make, name="encoder")
        self.integrator = TextsBidirectional(hidden_dim, make, name="integrator")
        self.score = keras.layers.Dense(1, kernel_initializer=fan_in_uniform(), name="score")
        self.dropout = Dropout(dropout)
        width = 16 * hidden_dim  # four pools of two texts, 2 * hidden_dim each
        self.maxouts = [Maxout(max(1, width // reduction**i), pieces, norm, name=f"maxout_{i}") for i in (1, 2, 3)]

    def call(self, states, padding_mask, segment_ids, training=None):
        real = ops.cast(padding_mask, "bool")
        x, _ = self.encoder(self.read(self.dropout(states, training=training)), real, segment_ids)  # (B, L, 2 A)
        other = ops.cast(ops.matmul(self.shares(x, real, segment_ids), ops.cast(x, "float32")), x.dtype)
        x, _ = self.integrator(ops.concatenate([x, x - other, x * other], axis=-1), real, segment_ids)
        first, second = texts_of(real, segment_ids)
        x = ops.concatenate([self.pool(x, first), self.pool(x, second)], axis=-1)  # (B, 16 A)
        for maxout in self.maxouts:
            x = maxout(self.dropout(x, training=training), training=training)
        return x

    def shares(self, x, real, segment_ids):
        """Returns how much each token attends to each one of the other text, float32 (B, L, L): rows sum to 1."""
        first, second = texts_of(real, segment_ids)
        seen = ops.where(
            ops.expand_dims(segment_ids == 0, -1), ops.expand_dims(second, 1), ops.expand_dims(first, 1)
        )  # (B, L, L)
        scores = ops.cast(ops.matmul(x, ops.transpose(x, (0, 2, 1))), "float32")
        return ops.softmax(ops.where(seen, scores, HIDDEN), axis=-1)

    def pool(self, x, real):
        """Returns the maximum, mean and minimum of the states of a text, and their mean by attention: (B, L, 2 A) -> (B, 8 A)."""
        states, there = ops.cast(x, "float32"), ops.expand_dims(real, -1)
        shares = ops.softmax(ops.where(there, ops.cast(self.score(x), "float32"), HIDDEN), axis=1)  # (B, L, 1)
        count = ops.maximum(ops.sum(ops.cast(there, "float32"), axis=1), 1.0)  # (B, 1)
        pools = [
            ops.max(ops.where(there, states, HIDDEN), axis=1),
            ops.sum(ops.where(there, states, 0.0), axis=1) / count,
            ops.min(ops.where(there, states, -HIDDEN), axis=1),
            ops.sum(states * shares, axis=1),
        ]
        some = ops.any(real, axis=1, keepdims=True)  # an empty text has zeros
        return ops.cast(ops.where(some, ops.concatenate(pools, axis=-1), 0.0), x.dtype)


class Maxout(Layer):
    """The largest of several linear functions, normed (Goodfellow et al., 2013): (B, E) -> (B, `width`)."""

    def __init__(self, width: int, pieces: int, norm: str = "batch", **kwargs):
        super().__init__(**kwargs)
        self.width, self.pieces = width, pieces
        self.dense = keras.layers.Dense(width * pieces, kernel_initializer=fan_in_uniform(), name="dense")
        self.norm = NORMS[norm](name="norm")

    def call(self, x, training=None):
        x = self.dense(x)
        return self.norm(
            ops.max(ops.reshape(x, (*ops.shape(x)[:-1], self.width, self.pieces)), axis=-1), training=training
        )


def texts_of(real, segment_ids):
    """Returns where the first text stands and where the second one does, which is the first where there is only one: bool (B, L) each.

    Args:
        real: bool (B, L), True on real tokens.
        segment_ids: int (B, L).
    """
    first, second = real & (segment_ids == 0), real & (segment_ids == 1)
    alone = ops.logical_not(ops.any(second, axis=1, keepdims=True))  # (B, 1)
    return first, ops.where(alone, first, second)
