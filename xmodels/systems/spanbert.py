"""SpanBERT (Joshi et al., 2019): masks spans of words, and predicts them also from the tokens at their boundaries.

The network is BERT's, on one segment and without next sentence prediction. Make its records with --packing=full_sentences or
doc_sentences.
"""

import dataclasses

from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.spans import mask_spans
from data_pipelines.text.vocabulary import CLS, PAD, SEP, Vocabulary
from xmodels.models.bert import SIZES, Bert, BertConfig
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.span_boundary import MAX_PAIR_TARGETS, SpanBoundary
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Bert, False
SMALL = small.MASKED
READING, WRITING = bert.READING, None


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """`longest` is the most words of a span, whose number is drawn from a geometric distribution with parameter `p`. Of a span the
    first `max_pair_targets` tokens are predicted from its boundaries; the published command has 15."""

    longest: int = 10
    p: float = 0.2
    max_pair_targets: int = MAX_PAIR_TARGETS

    def __post_init__(self):
        super().__post_init__()
        if self.longest < 1 or self.max_pair_targets < 1:
            raise ValueError("`longest` and `max_pair_targets` must be at least 1.")
        if not 0 < self.p < 1:
            raise ValueError("`p` must lie between 0 and 1.")


def configuration(vocabulary: Vocabulary, size: str) -> BertConfig:
    """BERT's of a size; its activation is the erf form, as in fairseq."""
    return BertConfig(vocabulary_size=len(vocabulary), activation="gelu", **SIZES[size])


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: BertConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of section 4.2: batch 256 at length 512, AdamW with epsilon 1e-8, peak 1e-4 after 10,000 of 2,400,000
    steps."""
    options = options or Options()
    config = config or configuration(vocabulary, size)
    corrupt = mask_spans(vocabulary, options.rate(records), records.num_predictions, options.p, options.longest)
    special = [vocabulary[token] for token in (CLS, SEP, PAD)]
    return Recipe(
        backbone=lambda: Bert(config),
        objective=lambda: together(
            MaskedLM(config, None if records.static else corrupt),
            SpanBoundary(config, special, options.max_pair_targets),
        ),
        frame=rename_classic() if records.static else frame_pair(vocabulary, records.sequence_length),
        batch_size=256,
        num_steps=2_400_000,
        learning_rate=1e-4,
        num_warmup_steps=10_000,
        optimizer="adamw",
        schedule="linear",
        adam_epsilon=1e-8,
        packings=("full_sentences", "doc_sentences"),
    )
