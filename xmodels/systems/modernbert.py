"""ModernBERT (Warner et al., 2024): masked LM alone on long rows, with rotary positions and local attention in two layers of three.

Its vocabulary is a BPE over bytes with BERT's special tokens: `xmodels train_vocabulary --tokenizer=byte_bpe`. Make its records with
--packing=full_sentences or doc_sentences.
"""

import dataclasses
import math

from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.corruption import mask_tokens_with_stochastic_rounding
from data_pipelines.ops.framing import frame_pair
from data_pipelines.text.frames import MODERNBERT
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.encoder_readings import MODERNBERT_READING
from xmodels.models.modernbert import SIZES, ModernBert, ModernBertConfig
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = ModernBert, False
SMALL = small.MASKED
READING, WRITING = MODERNBERT_READING, None
USUAL_RATE = 0.3  # share of the tokens that are hidden (section 2.2.1)


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """`masking_rate` is the share of the tokens to hide; with None 0.3, or that of the records if it is higher."""

    def rate(self, records: Records) -> float:
        return max(records.masking_rate, USUAL_RATE) if self.masking_rate is None else self.masking_rate


def slots(rate: float, length: int) -> int:
    """Returns the most tokens to hide in a row, where records were made for fewer."""
    return math.ceil(max(rate, USUAL_RATE) * length)


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: ModernBertConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of the first phase of table 3: 1.7 trillion tokens in rows of 1,024, batches of 4,608 rows (large: 4,928),
    AdamW with beta 0.90 and 0.98 and decay 1e-5, a constant rate of 8e-4 (large: 5e-4) behind 3 billion tokens of warmup. The
    authors' StableAdamW also limits each update; here gradients are clipped to 1."""
    options = options or Options()
    config = config or ModernBertConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    corrupt = mask_tokens_with_stochastic_rounding(vocabulary, options.rate(records), records.num_predictions)
    masked = None if records.static else corrupt
    large = config.num_layers > SIZES["base"]["num_layers"]
    return Recipe(
        backbone=lambda: ModernBert(config),
        objective=lambda: together(MaskedLM(config, masked, use_bias=False)),
        frame=rename_classic() if records.static else frame_pair(vocabulary, records.sequence_length, MODERNBERT),
        batch_size=4_928 if large else 4_608,
        num_steps=341_000 if large else 364_000,
        learning_rate=5e-4 if large else 8e-4,
        num_warmup_steps=600,
        optimizer="adamw",
        schedule="constant",
        weight_decay=1e-5,
        adam_beta1=0.9,
        adam_beta2=0.98,
        adam_epsilon=1e-6,
        packings=("full_sentences", "doc_sentences"),
    )
