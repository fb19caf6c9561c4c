"""XLM-R (Conneau et al., 2019): RoBERTa's masked LM on text of many languages, over SentencePiece.

Its vocabulary is SentencePiece's: `xmodels train_vocabulary --tokenizer=sentencepiece`. Weights of several --input_file say how much
of each language there is.
"""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.xlm_roberta import SIZES, XlmRoberta, XlmRobertaConfig
from xmodels.systems import roberta
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = XlmRoberta, False
SMALL, Options = roberta.SMALL, roberta.Options
READING, WRITING = roberta.READING, None


def configuration(vocabulary: Vocabulary, size: str) -> XlmRobertaConfig:
    """Returns the network of a size; positions begin behind the id of padding, as in fairseq."""
    return XlmRobertaConfig(vocabulary_size=len(vocabulary), first_position=vocabulary.padding_id + 1, **SIZES[size])


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: XlmRobertaConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns RoBERTa's recipe with 1,500,000 steps (section 3)."""
    config = config or configuration(vocabulary, size)
    found = roberta.recipe(vocabulary, records, size, config, options)
    return dataclasses.replace(found, backbone=lambda: XlmRoberta(config), num_steps=1_500_000)
