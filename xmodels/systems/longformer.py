"""Longformer (Beltagy et al., 2020): RoBERTa for long texts, with a sliding window and global tokens, in linear time.

The authors began with RoBERTa's weights and went on for 65,000 steps (section 5). Records, vocabulary, masks and fine-tuning are
RoBERTa's.
"""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.roberta import SIZES, Roberta, RobertaConfig
from xmodels.systems import roberta
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Roberta, False
SMALL, Options = roberta.SMALL, roberta.Options
READING, WRITING = roberta.READING, None
__all__ = ["SIZES"]


def configuration(vocabulary: Vocabulary, size: str) -> RobertaConfig:
    """Returns the network of a size of RoBERTa with this mixer, for texts of 4,096 tokens."""
    return dataclasses.replace(roberta.configuration(vocabulary, size), mixer="longformer", max_sequence_length=4096)


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: RobertaConfig | None = None,
    options: Options | None = None,
) -> Recipe:  # fmt: skip
    """Returns the recipe of section 5: 65,000 steps of 64 texts, peak 3e-5 after 500 steps, decaying with the power 3."""
    config = config or configuration(vocabulary, size)
    return dataclasses.replace(
        roberta.recipe(vocabulary, records, size, config, options),
        batch_size=64,
        num_steps=65_000,
        learning_rate=3e-5,
        num_warmup_steps=500,
        schedule="polynomial",
        lr_power=3.0,
    )
