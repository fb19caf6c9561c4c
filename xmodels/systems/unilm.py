"""UniLM (Dong et al., 2019): BERT trained with four attention masks, which then encodes as BERT does and also generates.

Records of --packing=segment_pair pretrain it. Records of --packing=parallel fine-tune it to write targets behind sources, with
`pretrain --init_checkpoint`; for other tasks it is fine-tuned as BERT.
"""

import dataclasses

from data_pipelines.errors import UsageError
from data_pipelines.ops.spans import mask_token_ngrams
from data_pipelines.ops.unilm import frame_language_models, frame_source_and_target, mask_targets
from data_pipelines.text.vocabulary import CLS, MASK, PAD, SEP, Vocabulary
from xmodels.interfaces.reading import BERT_NUMBERS
from xmodels.interfaces.writing import Writing
from xmodels.models.unilm import SIZES, Unilm, UnilmConfig
from xmodels.objectives import unilm
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Unilm, False
SMALL = small.MASKED
PACKINGS = ("segment_pair", "parallel")
READING = bert.READING
WRITING = Writing(
    objective=unilm.NextToken,
    task="translate",
    start=SEP,
    end=(SEP,),
    opening=CLS,
    opens_targets=False,
    hidden=MASK,
    one_row=True,
    num_beams=5,
    # Of the released commands for summaries, which read the rows 30 times.
    numbers={**BERT_NUMBERS, "learning_rate": 3e-5},
)


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """`ngrams` is the share of draws that hide two or three tokens in a row; of targets that are learnt `target_masking_rate` is the
    share of the tokens to hide, and `label_smoothing` the share of probability that other tokens get."""

    ngrams: float = 0.2
    target_masking_rate: float = 0.7
    label_smoothing: float = 0.1

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.ngrams <= 1:
            raise ValueError("`ngrams` must lie between 0 and 1.")
        if not 0 < self.target_masking_rate <= 1:
            raise ValueError("`target_masking_rate` must be above 0 and at most 1.")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError("`label_smoothing` must be from 0 to below 1.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: UnilmConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of section 2.4: batch 330 at length 512, peak 3e-5 after 40,000 of 770,000 steps, from BERT's weights.

    On parallel records the released fine-tuning on CNN / Daily Mail: batch 96, peak 3e-5, about 30 epochs of 287,000 pairs.
    """
    options = options or Options()
    config = config or UnilmConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    if records.static:
        raise UsageError("--system=unilm: hides tokens while it trains. Make the records without --masking=static.")
    if records.packing == "parallel":
        return _writing(vocabulary, records, config, options)
    corrupt = mask_token_ngrams(vocabulary, options.rate(records), records.num_predictions, options.ngrams)
    return Recipe(
        backbone=lambda: Unilm(config),
        objective=lambda: unilm.Unilm(config, corrupt),
        frame=frame_language_models(vocabulary, records.sequence_length),
        batch_size=330,
        num_steps=770_000,
        learning_rate=3e-5,
        num_warmup_steps=40_000,
        optimizer="bert_adamw",
        packings=PACKINGS,
    )


def _writing(vocabulary: Vocabulary, records: Records, config: UnilmConfig, options: Options) -> Recipe:
    """Targets behind their sources."""
    length = (
        2 * records.sequence_length + 1
    )  # `[CLS] source [SEP] target [SEP]`, each side shorter than the records say
    if length > config.max_sequence_length:
        raise UsageError(
            f"--system=unilm: pairs of up to {length} tokens, but the network has {config.max_sequence_length} positions. Make "
            f"records with --max_seq_length={(config.max_sequence_length - 1) // 2} or less, or give the network more: "
            f"--set=max_sequence_length={length}, and with --init_checkpoint also --extend_positions."
        )
    rate, smoothing, padding = options.target_masking_rate, options.label_smoothing, vocabulary[PAD]
    corrupt = mask_targets(vocabulary, rate, max(1, round(rate * records.sequence_length)))
    return Recipe(
        backbone=lambda: Unilm(config),
        objective=lambda: unilm.TargetMaskedLM(config, corrupt, smoothing, padding),
        frame=frame_source_and_target(vocabulary, length),
        batch_size=96,
        num_steps=90_000,
        learning_rate=3e-5,
        num_warmup_steps=9_000,
        optimizer="bert_adamw",
        packings=PACKINGS,
        row_length=length,
    )
