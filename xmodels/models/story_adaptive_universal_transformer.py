"""A Universal Transformer over stories with adaptive computation time for each sentence (Dehghani et al., 2018, sections 2.2
and 3.1)."""

import dataclasses

import keras

from xmodels.models.adaptive_universal_transformer import (
    AdaptiveUniversalTransformer,
    AdaptiveUniversalTransformerConfig,
)
from xmodels.models.story_universal_transformer import StoryUniversalTransformer
from xmodels.models.transformer import size


@dataclasses.dataclass(frozen=True)
class StoryAdaptiveUniversalTransformerConfig(AdaptiveUniversalTransformerConfig):
    """Steps as in `AdaptiveUniversalTransformerConfig`, lengths as in `StoryTransformerConfig`. There is no decoder."""

    max_sentence_length: int = 16


@keras.saving.register_keras_serializable("xmodels")
class StoryAdaptiveUniversalTransformer(StoryUniversalTransformer):
    """A `StoryUniversalTransformer` with adaptive computation time for each sentence.

    Call arguments and results as in `StoryTransformer`. It also returns `ponder_times` and `remainders`, float32 (B, S), and
    `halting_weights`, float32 (B, S, `max_steps`).
    """

    config_class = StoryAdaptiveUniversalTransformerConfig
    make_steps = AdaptiveUniversalTransformer.make_steps


SIZES = {"tiny": size(4, 128, 4, 512, max_steps=8)}
