"""Evolved Transformer (So et al., 2019): translation with the cells that a search has found, of convolutions, gates and attention."""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.evolved_transformer import SIZES, EvolvedTransformer, EvolvedTransformerConfig
from xmodels.systems import transformer
from xmodels.training.recipe import Recipe, Records
from xmodels.training.schedules.schedules import noam_peak

MODEL, NEEDS_WORDS = EvolvedTransformer, False
READING, WRITING, Options = None, transformer.WRITING, transformer.Options
WARMUP = 10_000


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: EvolvedTransformerConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the Transformer's numbers with the schedule of section 4: a warm-up in a line, then one cycle of a cosine down to 0,
    over 300,000 steps."""
    made = config or EvolvedTransformerConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    like = transformer.recipe(vocabulary, records, size, made, options or Options())
    return dataclasses.replace(
        like, backbone=lambda: EvolvedTransformer(made), num_steps=300_000, num_warmup_steps=WARMUP,
        learning_rate=noam_peak(made.hidden_dim, WARMUP), schedule="cosine",
    )  # fmt: skip
