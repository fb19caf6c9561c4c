"""Words from their characters: convolutions, highway layers and a projection (Kim et al., 2016; Peters et al., 2018, section 3.2)."""

import math
from collections.abc import Sequence

import keras
from keras import ops

from xmodels.layers.activations import activation
from xmodels.layers.layer import Layer

CARRY_BIAS = -2.0  # so that a highway layer begins by passing its input on


def _normal(stddev: float) -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(stddev=stddev)


class Highway(Layer):
    """g * relu(W x + b) + (1 - g) * x with the gate g = sigmoid(V x + c): (..., D) -> (..., D) (Srivastava et al., 2015)."""

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        stddev = 1.0 / math.sqrt(width)
        self.transform = keras.layers.Dense(width, "relu", kernel_initializer=_normal(stddev), name="transform")
        self.gate = keras.layers.Dense(
            width, "sigmoid", kernel_initializer=_normal(stddev),
            bias_initializer=keras.initializers.Constant(CARRY_BIAS), name="gate",
        )  # fmt: skip

    def call(self, x):
        gate = self.gate(x)
        return gate * self.transform(x) + (1.0 - gate) * x


class CharacterWords(Layer):
    """A vector for each word, which does not depend on the words around it.

    Args:
        num_characters: ids of characters; a row of zeros is no word, and its vector has no meaning.
        character_dim: C, the width of the embedding of a character.
        widths: of the convolutions, in characters.
        num_filters: of each.
        num_highway: highway layers.
        output_dim: E.
        activation_name: after the maximum over the places of a word.
        initial_scale: with "relu" kernels of convolutions begin uniform up to it, else normal, as in bilm-tf.

    Call arguments:
        characters: int (B, L, K), K at least the largest width.

    Returns:
        (B, L, E)
    """

    def __init__(
        self, num_characters: int, character_dim: int, widths: Sequence[int], num_filters: Sequence[int], num_highway: int,
        output_dim: int, activation_name: str = "relu", initial_scale: float = 0.05, **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        uniform = keras.initializers.RandomUniform
        self.embedding = keras.layers.Embedding(num_characters, character_dim, uniform(-1.0, 1.0), name="embedding")
        self.convolutions = [
            keras.layers.Conv1D(
                filters, width, name=f"convolution_{i}",
                kernel_initializer=uniform(-initial_scale, initial_scale)
                if activation_name == "relu"
                else _normal((width * character_dim) ** -0.5),
            )
            for i, (width, filters) in enumerate(zip(widths, num_filters, strict=True))
        ]  # fmt: skip
        self.activation = activation(activation_name)
        total = sum(num_filters)
        self.highways = [Highway(total, name=f"highway_{i}") for i in range(num_highway)]
        self.projection = keras.layers.Dense(output_dim, kernel_initializer=_normal(total**-0.5), name="projection")

    def call(self, characters):
        shape = ops.shape(characters)  # B, L, K
        x = self.embedding(ops.reshape(ops.cast(characters, "int32"), (-1, shape[-1])))  # (B L, K, C)
        # The characters that fill up a word take part, as in the published networks.
        x = ops.concatenate([ops.max(convolution(x), axis=1) for convolution in self.convolutions], axis=-1)
        x = self.activation(x)  # (B L, F)
        for highway in self.highways:
            x = highway(x)
        return ops.reshape(self.projection(x), (*shape[:2], -1))
