"""Words from their characters: convolutions of several widths, of which the largest values over a word count (Kim et al., 2016)."""

from collections.abc import Sequence

import keras
from keras import ops

from xmodels.layers.layer import Layer


class CharacterFilters(Layer):
    """A vector for each word, which does not depend on the words around it.

    Args:
        num_characters: ids of characters.
        character_dim: C, the width of the embedding of a character.
        widths: of the convolutions, in characters.
        num_filters: of each.

    Call arguments:
        characters: int (B, L, K), K at least the largest width. What fills up a word takes part, as in the released code.

    Returns:
        (B, L, sum of `num_filters`)
    """

    def __init__(
        self, num_characters: int, character_dim: int, widths: Sequence[int], num_filters: Sequence[int], **kwargs
    ):
        super().__init__(**kwargs)
        glorot = keras.initializers.GlorotUniform
        self.embedding = keras.layers.Embedding(num_characters, character_dim, glorot(), name="embedding")
        self.convolutions = [
            keras.layers.Conv1D(filters, width, activation="relu", name=f"convolution_{i}")
            for i, (width, filters) in enumerate(zip(widths, num_filters, strict=True))
        ]

    def call(self, characters):
        shape = ops.shape(characters)  # B, L, K
        x = self.embedding(ops.reshape(ops.cast(characters, "int32"), (-1, shape[-1])))  # (B L, K, C)
        x = ops.concatenate([ops.max(convolution(x), axis=1) for convolution in self.convolutions], axis=-1)
        return ops.reshape(x, (*shape[:2], -1))
