"""Output heads."""

import keras
from keras import ops

from xmodels.layers.activations import activation
from xmodels.layers.initialization import Initialization, bert, truncated_normal
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.layers.rows import take_rows


class MaskedLMHead(Layer):
    """Predicts the tokens at given positions: Dense, activation, LayerNorm, then the transposed token embedding plus a bias.

    The Dense layer projects to the width of the token embedding. Only the states of the P positions are projected, not all L.

    Args:
        initialization: of the Dense layer; by default BERT's.
        use_bias: whether the Dense layer and the norm have biases.

    Call arguments:
        x: (B, L, D).
        positions: int (B, P).
        token_embedding: the embedding layer whose table (V, E) is shared.

    Returns:
        float32 logits (B, P, V)
    """

    def __init__(self, config, initialization: Initialization | None = None, use_bias: bool = True, **kwargs):
        super().__init__(**kwargs)
        initializer = (initialization or bert(config.initializer_stddev)).inner()
        self.dense = keras.layers.Dense(config.embedding_dim, None, use_bias, initializer, name="dense")
        self.norm = LayerNorm(-1, config.layer_norm_epsilon, center=use_bias, name="norm")
        self.activation = activation(config.activation)
        self.bias = self.add_weight(shape=(config.vocabulary_size,), initializer="zeros", name="bias")

    def call(self, x, positions, token_embedding):
        x = take_rows(x, positions)  # (B, P, D)
        x = self.norm(self.activation(self.dense(x)))  # (B, P, E)
        return vocabulary_logits(x, token_embedding, self.bias)


def vocabulary_logits(x, token_embedding, bias):
    """Returns x (B, P, E) times the transposed table of an embedding layer, plus a bias (V,): float32 (B, P, V)."""
    rows = ops.reshape(x, (-1, x.shape[-1]))  # TensorFlow fuses a product and its bias if the input has two axes
    logits = ops.add(tied_logits(rows, token_embedding), ops.cast(bias, "float32"))
    return ops.reshape(logits, (*ops.shape(x)[:-1], logits.shape[-1]))


def tied_logits(x, token_embedding):
    """Returns x (..., D) times the transposed table of an embedding layer: float32 (..., V)."""
    return ops.cast(ops.matmul(x, ops.transpose(ops.cast(token_embedding.embeddings, x.dtype))), "float32")


class SpanBoundaryHead(Layer):
    """Predicts the tokens of masked spans from the states on both sides of a span and an embedding of the position in it.

    Twice Dense, activation and LayerNorm, then the transposed token embedding plus a bias (Joshi et al., 2019, equation 3).

    Args:
        longest: the number of positions in a span that have an embedding.
        place_dim: the width of these; 200 in the released code.

    Call arguments:
        x: (B, L, D).
        left, right: int (B, P), the positions just before and after the span of each masked token.
        place: int (B, P), the position of the token in its span, from 0, below `longest`.
        token_embedding: the embedding layer whose table (V, E) is shared.

    Returns:
        float32 logits (B, P, V)
    """

    def __init__(self, config, longest: int, place_dim: int = 200, **kwargs):
        super().__init__(**kwargs)

        def dense(name):
            initializer = truncated_normal(config.initializer_stddev)
            return keras.layers.Dense(config.embedding_dim, kernel_initializer=initializer, name=name)

        def norm(name):
            return LayerNorm(epsilon=config.layer_norm_epsilon, name=name)

        initializer = truncated_normal(config.initializer_stddev)
        self.place = keras.layers.Embedding(longest, place_dim, embeddings_initializer=initializer, name="place")
        self.dense_0, self.norm_0 = dense("dense_0"), norm("norm_0")
        self.dense_1, self.norm_1 = dense("dense_1"), norm("norm_1")
        self.activation = activation(config.activation)
        self.bias = self.add_weight(shape=(config.vocabulary_size,), initializer="zeros", name="bias")

    def call(self, x, left, right, place, token_embedding):
        sides = [take_rows(x, each) for each in (left, right)]  # (B, P, D) each
        x = ops.concatenate([*sides, ops.cast(self.place(place), x.dtype)], axis=-1)
        x = self.norm_0(self.activation(self.dense_0(x)))
        x = self.norm_1(self.activation(self.dense_1(x)))  # (B, P, E)
        return vocabulary_logits(x, token_embedding, self.bias)
