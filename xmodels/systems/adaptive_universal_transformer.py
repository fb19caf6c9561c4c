"""Universal Transformer with adaptive computation time (Dehghani et al., 2018)."""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.adaptive_universal_transformer import (
    SIZES,
    AdaptiveUniversalTransformer,
    AdaptiveUniversalTransformerConfig,
)
from xmodels.objectives.pondering import PONDER_WEIGHT, PonderingSeq2Seq
from xmodels.systems import universal_transformer
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = AdaptiveUniversalTransformer, False
READING, WRITING = None, universal_transformer.WRITING


@dataclasses.dataclass(frozen=True)
class Options(universal_transformer.Options):
    """`ponder_weight` is the cost of a step, tensor2tensor's `act_loss_weight`."""

    ponder_weight: float = PONDER_WEIGHT

    def __post_init__(self):
        super().__post_init__()
        if self.ponder_weight < 0:
            raise ValueError("`ponder_weight` must be 0 or more.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: AdaptiveUniversalTransformerConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the numbers of the Universal Transformer; pondering costs 0.01 a step."""
    options = options or Options()
    config = config or AdaptiveUniversalTransformerConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    like = universal_transformer.recipe(vocabulary, records, size, config, options)
    return dataclasses.replace(
        like,
        backbone=lambda: AdaptiveUniversalTransformer(config),
        objective=lambda: PonderingSeq2Seq(
            options.label_smoothing, options.ponder_weight, smoothing_over=options.smoothing_over
        ),
    )
