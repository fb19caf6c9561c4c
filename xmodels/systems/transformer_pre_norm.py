"""Pre-norm Transformer (Xiong et al., 2020): the Transformer with norms inside the residual branches, which trains without warm-up."""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.transformer import SIZES, TransformerConfig
from xmodels.models.transformer_pre_norm import PreNormTransformer
from xmodels.systems import transformer
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = PreNormTransformer, False
READING, WRITING, Options = None, transformer.WRITING, transformer.Options


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: TransformerConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of section 4: the numbers of the Transformer, without warm-up; the rate falls in a line from the
    start."""
    options = options or Options()
    config = config or TransformerConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    like = transformer.recipe(vocabulary, records, size, config, options)
    return dataclasses.replace(like, backbone=lambda: PreNormTransformer(config), num_warmup_steps=0, schedule="linear")
