"""Universal Transformer with adaptive computation time (Dehghani et al., 2018, section 2.2)."""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.adaptive_universal_transformer import (
    SIZES,
    AdaptiveUniversalTransformer,
    AdaptiveUniversalTransformerConfig,
)
from xmodels.objectives.pondering import PonderingSeq2Seq
from xmodels.systems import universal_transformer
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = AdaptiveUniversalTransformer, False


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: AdaptiveUniversalTransformerConfig | None = None,
) -> Recipe:
    """The numbers of the Universal Transformer; pondering costs 0.01 a step."""
    config = config or AdaptiveUniversalTransformerConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    like = universal_transformer.recipe(vocabulary, records, size, config)
    return dataclasses.replace(
        like,
        backbone=lambda: AdaptiveUniversalTransformer(config),
        objective=lambda: PonderingSeq2Seq(0.1, ponder_weight=0.01),
    )
