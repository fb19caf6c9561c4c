"""T5 (Raffel et al., 2019): every task is text to text; pretrained to generate masked spans.

Make its vocabulary with `xmodels train_vocabulary --tokenizer=sentencepiece --num_sentinels=100`, its records with
--packing=full_sentences --max_seq_length=570, which gives sources of 512 tokens and targets of 114. Sizes `v1_1_...` are those of
version 1.1.
"""

import dataclasses

from data_pipelines.ops.joined import join_segments
from data_pipelines.ops.parallel import end_of
from data_pipelines.ops.sentinels import corrupt_spans, num_spans, sentinels_of
from data_pipelines.text.vocabulary import PAD, SEP, Vocabulary
from xmodels.interfaces.writing import Writing
from xmodels.models.t5 import SIZES, T5, T5Config
from xmodels.objectives.seq2seq import Seq2Seq
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = T5, False
SMALL = small.ONE_LENGTH
PUBLISHED_BELOW_BASE = ("small", "v1_1_small")  # which keep the numbers of the paper
READING = None
WRITING = Writing(
    objective=lambda config: Seq2Seq(label_smoothing=0.0),
    task="translate",
    # Section 3.1.2: AdaFactor at a constant rate.
    numbers={"learning_rate": 1e-3, "warmup_proportion": 0.0, "optimizer": "adafactor", "lr_schedule": "constant"},
)
FIRST_SENTINEL = "<extra_id_0>"
FRAMED = 2  # special tokens for which records leave room


@dataclasses.dataclass(frozen=True)
class Options:
    """`noise_density` is the share of the tokens that is hidden, `mean_span_length` that of a span, in tokens (section 3.3.4).

    None stands for the share that the records were made for.
    """

    noise_density: float | None = None
    mean_span_length: float = 3.0

    def __post_init__(self):
        if self.noise_density is not None and not 0 < self.noise_density < 1:
            raise ValueError("`noise_density` must lie between 0 and 1.")
        if not self.mean_span_length >= 1:
            raise ValueError("`mean_span_length` must be at least 1.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: T5Config | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of section 3.1.2: 2^19 steps of 128 texts, AdaFactor with the rate 0.01 for 10,000 steps, then falling
    as 1 / sqrt(step)."""
    options = options or Options()
    config = config or T5Config(vocabulary_size=len(vocabulary), **SIZES[size])
    density = records.masking_rate if options.noise_density is None else options.noise_density
    length = records.sequence_length - FRAMED
    numbers = length, density, options.mean_span_length
    sentinels = sentinels_of(vocabulary, num_spans(*numbers)[1])
    own = FIRST_SENTINEL in vocabulary.ids
    corrupt = corrupt_spans(sentinels, end_of(vocabulary), *numbers, pad_id=vocabulary[PAD])
    return Recipe(
        backbone=lambda: T5(config),
        objective=lambda: Seq2Seq(0.0, corrupt),
        frame=join_segments(length, vocabulary.roles.get(SEP)),
        batch_size=128,
        num_steps=2**19,
        learning_rate=0.01,
        num_warmup_steps=10_000,
        optimizer="adafactor",
        schedule="t5_inverse_sqrt",
        clip_norm=0.0,
        packings=("full_sentences", "doc_sentences", "segment_pair", "sentence_pair"),
        note=""
        if own
        else f"The vocabulary has no {FIRST_SENTINEL}, so its last {len(sentinels)} tokens mark masked spans, although they may "
        "occur in text; `train_vocabulary --num_sentinels=100` adds sentinels.",
    )
