"""Compressive Transformer (Rae et al., 2019): Transformer-XL that compresses the states which leave its memory, and keeps them.

Records and numbers of training are those of Transformer-XL.
"""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.layers.adaptive import cutoffs_of
from xmodels.models.compressive_transformer import SIZES, CompressiveTransformer, CompressiveTransformerConfig
from xmodels.systems import transformer_xl
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = CompressiveTransformer, False
SMALL, READING, WRITING = transformer_xl.SMALL, transformer_xl.READING, transformer_xl.WRITING


def configuration(vocabulary: Vocabulary, size: str) -> CompressiveTransformerConfig:
    """Returns the network of a size, with cutoffs for the vocabulary."""
    return CompressiveTransformerConfig(len(vocabulary), cutoffs=cutoffs_of(len(vocabulary)), **SIZES[size])


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: CompressiveTransformerConfig | None = None
) -> Recipe:
    """Returns Transformer-XL's recipe for this network."""
    made = config or configuration(vocabulary, size)
    return dataclasses.replace(
        transformer_xl.recipe(vocabulary, records, size, made), backbone=lambda: CompressiveTransformer(made)
    )
