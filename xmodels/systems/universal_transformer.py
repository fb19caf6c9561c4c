"""Universal Transformer (Dehghani et al., 2018) with a fixed number of steps."""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.universal_transformer import SIZES, UniversalTransformer, UniversalTransformerConfig
from xmodels.systems import transformer
from xmodels.training.recipe import Recipe, Records
from xmodels.training.schedules.schedules import noam_peak

MODEL, NEEDS_WORDS = UniversalTransformer, False
READING, WRITING, Options = None, transformer.WRITING, transformer.Options


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: UniversalTransformerConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the numbers of the Transformer's `base`, but warm-up, peak and beta2 of tensor2tensor's later
    `transformer_base_v3`."""
    options = options or Options()
    config = config or UniversalTransformerConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    like = transformer.recipe(vocabulary, records, size, config, options)
    return dataclasses.replace(
        like,
        backbone=lambda: UniversalTransformer(config),
        num_steps=100_000,
        learning_rate=noam_peak(config.hidden_dim, 8_000, 2.0),
        num_warmup_steps=8_000,
        adam_beta2=0.997,
    )
