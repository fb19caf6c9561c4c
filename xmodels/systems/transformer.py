"""Transformer (Vaswani et al., 2017): translation, or any other text from text."""

import dataclasses

from data_pipelines.ops.parallel import frame_parallel
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models.transformer import SIZES, Transformer, TransformerConfig
from xmodels.objectives.measures import OTHERS, SMOOTHED_OVER
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.training.recipe import Recipe, Records
from xmodels.training.schedules.schedules import noam_peak

MODEL, NEEDS_WORDS = Transformer, False
READING, WRITING = None, Writing(objective=lambda config: Seq2Seq(), task="translate")


@dataclasses.dataclass(frozen=True)
class Options:
    """`label_smoothing` is the share of probability that is spread over other tokens than the target (section 5.4), or with
    `smoothing_over` "all" over the target too."""

    label_smoothing: float = 0.1
    smoothing_over: str = OTHERS

    def __post_init__(self):
        if not 0 <= self.label_smoothing < 1:
            raise ValueError("`label_smoothing` must be from 0 to below 1.")
        if self.smoothing_over not in SMOOTHED_OVER:
            raise ValueError(f"`smoothing_over` must be {' or '.join(SMOOTHED_OVER)}.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: TransformerConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of section 5: 100,000 steps, of `big` 300,000, warm-up of 4,000, label smoothing 0.1. A batch of
    25,000 tokens a side is here one of about as many examples as that is of sentences; the peak is hidden_dim^-0.5 * 4000^-0.5,
    7e-4 at 512."""
    options = options or Options()
    config = config or TransformerConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: Transformer(config),
        objective=lambda: Seq2Seq(options.label_smoothing, smoothing_over=options.smoothing_over),
        frame=frame_parallel(vocabulary, records.sequence_length),
        batch_size=1000,
        num_steps=300_000 if config.hidden_dim >= SIZES["big"]["hidden_dim"] else 100_000,
        learning_rate=noam_peak(config.hidden_dim, 4_000),
        num_warmup_steps=4_000,
        optimizer="adam",
        schedule="noam",
        clip_norm=0.0,
        packings=("parallel",),
    )
