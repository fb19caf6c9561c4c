"""Star-Transformer (Guo et al., 2019): masked LM with tokens in a ring around a relay, in linear time.

The paper trains on labelled texts alone, as `finetune --init_checkpoint=new:star_transformer` does. Records, vocabulary and masks of
pretraining are RoBERTa's.
"""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.reading import ROBERTA_READING, dense_with, pooled
from xmodels.models.star_transformer import SIZES, StarTransformer, StarTransformerConfig
from xmodels.systems import roberta
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = StarTransformer, False
SMALL, Options = roberta.SMALL, roberta.Options
# Section 4.1: a layer with ReLU on the mean of the relay and the maximum over tokens. Adam, as other networks without a past.
READING = dataclasses.replace(
    ROBERTA_READING, summary=pooled, has_dense=True, make_dense=dense_with("relu"),
    numbers={"learning_rate": 1e-3, "warmup_proportion": 0.0, "optimizer": "adam", "lr_schedule": "linear"},
)  # fmt: skip
WRITING = None
__all__ = ["SIZES"]


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: StarTransformerConfig | None = None,
    options: Options | None = None,
) -> Recipe:  # fmt: skip
    """Returns RoBERTa's recipe for this network."""
    made = config or StarTransformerConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    return dataclasses.replace(
        roberta.recipe(vocabulary, records, size, made, options), backbone=lambda: StarTransformer(made)
    )
