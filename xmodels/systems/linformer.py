"""Linformer (Wang et al., 2020): RoBERTa whose keys and values are mixed down to a fixed number, in linear time.

The paper has no code. Records, vocabulary and fine-tuning are RoBERTa's.
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
    """Returns the network of a size of RoBERTa with this mixer."""
    return dataclasses.replace(roberta.configuration(vocabulary, size), mixer="linformer")


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: RobertaConfig | None = None,
    options: Options | None = None,
) -> Recipe:  # fmt: skip
    """Returns the recipe of section 5.1: 250,000 steps at length 512. All other numbers are RoBERTa's, of which the paper names
    no other."""
    config = config or configuration(vocabulary, size)
    return dataclasses.replace(roberta.recipe(vocabulary, records, size, config, options), num_steps=250_000)
