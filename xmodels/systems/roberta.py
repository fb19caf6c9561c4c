"""RoBERTa (Liu et al., 2019): masked LM alone with dynamic masking, over rows packed with full sentences.

Its vocabulary is GPT-2's byte-level BPE with fairseq's special tokens: `xmodels train_vocabulary --tokenizer=byte_bpe`. Make
its records with --packing=full_sentences or doc_sentences; those of --packing=segment_pair or sentence_pair are read too, for
comparison, without next sentence prediction.
"""

import dataclasses

from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.corruption import mask_tokens_with_stochastic_rounding
from data_pipelines.ops.framing import frame_pair
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.reading import ROBERTA_READING
from xmodels.layers.initialization import gpt
from xmodels.models.roberta import SIZES, Roberta, RobertaConfig
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Roberta, False
SMALL = small.MASKED
READING, WRITING = ROBERTA_READING, None


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """`mask_specials` lets `<s>` and `</s>` be hidden too, as in fairseq."""

    mask_specials: bool = False


def configuration(vocabulary: Vocabulary, size: str) -> RobertaConfig:
    """Returns the network of a size; positions begin behind the id of padding, as in fairseq."""
    return RobertaConfig(vocabulary_size=len(vocabulary), first_position=vocabulary.padding_id + 1, **SIZES[size])


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: RobertaConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of table 9: batch 8,192 at length 512, 500,000 steps, Adam with beta2 0.98 and decay 0.01, without
    clipping; peak 6e-4 after 24,000 steps, of the large network 4e-4 after 30,000. As in fairseq random tokens are never
    special ones, and the number of hidden tokens is rounded at random."""
    options = options or Options()
    config = config or configuration(vocabulary, size)
    corrupt = mask_tokens_with_stochastic_rounding(
        vocabulary, options.rate(records), records.num_predictions, options.mask_specials
    )
    masked = None if records.static else corrupt
    large = config.num_layers > SIZES["base"]["num_layers"]
    return Recipe(
        backbone=lambda: Roberta(config),
        objective=lambda: together(MaskedLM(config, masked, gpt(config.initializer_stddev))),
        # Records of pairs leave room for three special tokens, so one `</s>` stands between the two; without pairs it is the same.
        frame=rename_classic() if records.static else frame_pair(vocabulary, records.sequence_length),
        batch_size=8192,
        num_steps=500_000,
        learning_rate=4e-4 if large else 6e-4,
        num_warmup_steps=30_000 if large else 24_000,
        optimizer="adamw",
        schedule="linear",
        adam_beta2=0.98,
        clip_norm=0.0,
        packings=("full_sentences", "doc_sentences", "segment_pair", "sentence_pair"),
    )
