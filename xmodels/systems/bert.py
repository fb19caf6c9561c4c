"""BERT (Devlin et al., 2018): masked LM over word pieces and next sentence prediction."""

import dataclasses

from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.compose import Op
from data_pipelines.ops.corruption import mask_tokens
from data_pipelines.ops.framing import frame_pair
from data_pipelines.text.vocabulary import MASK, Vocabulary
from xmodels.interfaces.reading import Reading
from xmodels.models.bert import SIZES, Bert, BertConfig
from xmodels.objectives.base import Objective, together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.next_sentence import NextSentence
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Bert, False
SMALL = small.MASKED
READING, WRITING = Reading(), None


@dataclasses.dataclass(frozen=True)
class MaskingOptions:
    """`masking_rate` is the share of the tokens to hide; None: that of `Records`."""

    masking_rate: float | None = None

    def __post_init__(self):
        if self.masking_rate is not None and not 0 < self.masking_rate < 1:
            raise ValueError("`masking_rate` must lie between 0 and 1.")

    def rate(self, records: Records) -> float:
        """Returns the share of the tokens that is hidden."""
        return records.masking_rate if self.masking_rate is None else self.masking_rate


@dataclasses.dataclass(frozen=True)
class Options(MaskingOptions):
    """`next_sentence` is whether next sentences are predicted too; without it the records may be of any
    packing of one or two segments."""

    next_sentence: bool = True


def objective_of(config: BertConfig, corrupt: Op | None, options: Options) -> Objective:
    """Returns masked LM, and next sentence prediction unless it is left out. Each draws its weights when it is made, so the
    order stays."""
    masked = MaskedLM(config, corrupt)
    return together(masked, NextSentence(config)) if options.next_sentence else together(masked)


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: BertConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of appendix A.2 of the paper: batch 256, peak 1e-4 after 10,000 steps, 1,000,000 steps, weight decay
    0.01."""
    options = options or Options()
    config = config or BertConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    corrupt = mask_tokens(vocabulary[MASK], len(vocabulary), options.rate(records), records.num_predictions)
    return Recipe(
        backbone=lambda: Bert(config),
        objective=lambda: objective_of(config, None if records.static else corrupt, options),
        frame=rename_classic() if records.static else frame_pair(vocabulary, records.sequence_length),
        batch_size=256,
        num_steps=1_000_000,
        learning_rate=1e-4,
        num_warmup_steps=10_000,
        optimizer="bert_adamw",
    )
