"""RoBERTa-wwm-ext (Cui et al., 2019): BERT with whole-word masking and without next sentence prediction.

arXiv 1906.08101, journal version in IEEE/ACM TASLP 2021. A BERT, not a RoBERTa: its network, vocabulary and token types are BERT's.
From RoBERTa it takes that there is no next sentence prediction, and that every example is as long as it may be: make its records with
--packing=full_sentences or doc_sentences.
"""

from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.corruption import mask_whole_words
from data_pipelines.ops.framing import frame_pair
from data_pipelines.text.vocabulary import MASK, Vocabulary
from xmodels.models.bert import SIZES, Bert, BertConfig
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Bert, True
SMALL = small.MASKED
READING, WRITING = bert.READING, None
Options = bert.MaskingOptions


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: BertConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the numbers of the authors: AdamW, peak 1e-4 after 10 % of the steps; of the base model 1,000,000 of 384 rows of
    512, of the large one 2,000,000 of 512."""
    options = options or Options()
    config = config or BertConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    large = config.num_layers > SIZES["base"]["num_layers"]
    corrupt = mask_whole_words(
        vocabulary[MASK],
        len(vocabulary),
        options.rate(records),
        records.num_predictions,
        replace_unit=records.replace_unit,
    )
    return Recipe(
        backbone=lambda: Bert(config),
        objective=lambda: together(MaskedLM(config, None if records.static else corrupt)),
        frame=rename_classic() if records.static else frame_pair(vocabulary, records.sequence_length),
        batch_size=512 if large else 384,
        num_steps=2_000_000 if large else 1_000_000,
        learning_rate=1e-4,
        num_warmup_steps=200_000 if large else 100_000,
        optimizer="adamw",
    )
