"""BigBird (Zaheer et al., 2020), the internal construction: RoBERTa for long texts, with a window, global and random blocks.

The authors began with RoBERTa's weights (section 4 and appendix E). Records, vocabulary, masks and fine-tuning are RoBERTa's.
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
    return dataclasses.replace(roberta.configuration(vocabulary, size), mixer="bigbird", max_sequence_length=4096)


def recipe(
    vocabulary: Vocabulary, records: Records, size: str = "base", config: RobertaConfig | None = None,
    options: Options | None = None,
) -> Recipe:  # fmt: skip
    """Returns RoBERTa's recipe with the batch of 256 and the rate 1e-4 of the paper's appendix E.1."""
    config = config or configuration(vocabulary, size)
    return dataclasses.replace(
        roberta.recipe(vocabulary, records, size, config, options), batch_size=256, learning_rate=1e-4, num_warmup_steps=10_000
    )  # fmt: skip
