"""Output heads."""

import keras
from keras import ops

from xmodels.layers.activations import activation
from xmodels.layers.initialization import truncated_normal
from xmodels.layers.layer import Layer


class MaskedLMHead(Layer):
    """Names the tokens at given positions: Dense, activation, LayerNorm, then the transposed token table plus a bias.

    The Dense layer gives rows of the width of the table.

    Gathers before it projects, so that the vocabulary is scored at P positions and not at L.

    Call arguments:
        x: (B, L, D).
        positions: int (B, P).
        token_embedding: the embedding layer whose table, (V, E), is shared.

    Returns:
        float32 logits (B, P, V)
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        initializer = truncated_normal(config.initializer_stddev)
        self.dense = keras.layers.Dense(config.embedding_dim, kernel_initializer=initializer, name="dense")
        self.norm = keras.layers.LayerNormalization(epsilon=config.layer_norm_epsilon, name="norm")
        self.activation = activation(config.activation)
        self.bias = self.add_weight(shape=(config.vocabulary_size,), initializer="zeros", name="bias")

    def call(self, x, positions, token_embedding):
        x = ops.take_along_axis(x, ops.expand_dims(positions, -1), axis=1)  # (B, P, D)
        x = self.norm(self.activation(self.dense(x)))  # (B, P, E)
        rows = ops.reshape(x, (-1, x.shape[-1]))  # of two axes, a product and its bias are one kernel in TensorFlow
        logits = ops.add(tied_logits(rows, token_embedding), ops.cast(self.bias, "float32"))
        return ops.reshape(logits, (*ops.shape(x)[:-1], logits.shape[-1]))  # (B, P, V)


def tied_logits(x, token_embedding):
    """x (..., D) times the transposed table of an embedding layer: float32 (..., V)."""
    return ops.cast(ops.matmul(x, ops.transpose(ops.cast(token_embedding.embeddings, x.dtype))), "float32")
