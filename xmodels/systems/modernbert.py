"""ModernBERT (Warner et al., 2024): masked LM alone on long rows, with rotary positions and local attention in two layers of three.

Its vocabulary is a BPE over bytes with BERT's special tokens: `xmodels train_vocabulary --tokenizer=byte_bpe`. Make its records with
--packing=full_sentences or doc_sentences.
"""

import dataclasses

from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.corruption import mask_tokens_with_stochastic_rounding
from data_pipelines.ops.framing import frame_pair
from data_pipelines.text.frames import Frame
from data_pipelines.text.vocabulary import CLS, SEP, Vocabulary
from xmodels.interfaces.reading import Reading, first_token
from xmodels.models.modernbert import SIZES, ModernBert, ModernBertConfig, PredictionHead
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = ModernBert, False
SMALL = small.MASKED
FRAME = Frame.of(f"{CLS} A {SEP} (B {SEP})")
# A Dense layer, GELU and a norm on the state of `[CLS]`; appendix D searches rates around 5e-5 and weight decays around 1e-5.
READING = Reading(
    frame=FRAME, summary=first_token, has_dense=True, make_dense=PredictionHead, drops_state=False, head_dropout=0.0,
    numbers={
        "learning_rate": 5e-5, "warmup_proportion": 0.1, "optimizer": "adamw", "lr_schedule": "linear", "weight_decay": 1e-5,
        "adam_beta2": 0.98,
    },
)  # fmt: skip
WRITING = None


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """`masking_rate` is the share of the tokens to hide, 0.3 in the paper; with None that of the records if it is higher."""

    def rate(self, records: Records) -> float:
        return max(records.masking_rate, 0.3) if self.masking_rate is None else self.masking_rate


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
        frame=rename_classic() if records.static else frame_pair(vocabulary, records.sequence_length, FRAME),
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
