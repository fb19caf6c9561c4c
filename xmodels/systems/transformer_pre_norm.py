"""Pre-norm Transformer (Xiong et al., 2020): the same, and it trains without warm-up."""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.transformer import SIZES, TransformerConfig
from xmodels.models.transformer_pre_norm import PreNormTransformer
from xmodels.systems import transformer
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = PreNormTransformer, False


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: TransformerConfig | None = None
) -> Recipe:
    """Section 4: the numbers of the Transformer, without warm-up; the rate falls in a line from the start."""
    config = config or TransformerConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    like = transformer.recipe(vocabulary, records, size, config)
    return dataclasses.replace(like, backbone=lambda: PreNormTransformer(config), num_warmup_steps=0, schedule="linear")
