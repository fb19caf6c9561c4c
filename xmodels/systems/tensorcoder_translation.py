"""TensorCoder as encoder and decoder (Zhang et al., 2020): translation with attention between the dimensions of heads."""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.mixed_transformer import SIZES, MixedTransformer, MixedTransformerConfig
from xmodels.systems import transformer
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = MixedTransformer, False
READING, WRITING, Options = None, transformer.WRITING, transformer.Options


def configuration(vocabulary: Vocabulary, size: str) -> MixedTransformerConfig:
    """Returns a Transformer of a size with this mixer."""
    return MixedTransformerConfig(vocabulary_size=len(vocabulary), mixer="tensorcoder", **SIZES[size])


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: MixedTransformerConfig | None = None,
    options: Options | None = None,
) -> Recipe:  # fmt: skip
    """Returns the Transformer's numbers for this network."""
    made = config or configuration(vocabulary, size)
    like = transformer.recipe(vocabulary, records, size, made, options)
    return dataclasses.replace(like, backbone=lambda: MixedTransformer(made))
