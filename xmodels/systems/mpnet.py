"""MPNet (Song et al., 2020): RoBERTa with biases for relative positions.

Its paper predicts masked tokens in a permuted order. Here it learns RoBERTa's masked LM, or goes on from published weights. Its
records are RoBERTa's.
"""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.mpnet import SIZES, Mpnet, MpnetConfig
from xmodels.systems import roberta
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Mpnet, False
SMALL, Options = roberta.SMALL, roberta.Options
READING, WRITING = roberta.READING, None


def configuration(vocabulary: Vocabulary, size: str) -> MpnetConfig:
    """Returns the network of a size; positions begin behind the id of padding, as in fairseq."""
    return MpnetConfig(vocabulary_size=len(vocabulary), first_position=vocabulary.padding_id + 1, **SIZES[size])


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: MpnetConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns RoBERTa's recipe, which section 4.1 follows."""
    config = config or configuration(vocabulary, size)
    found = roberta.recipe(vocabulary, records, size, config, options)
    return dataclasses.replace(found, backbone=lambda: Mpnet(config))
