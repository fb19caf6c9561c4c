"""BERT-wwm (Google, 2019; Cui et al., 2019): BERT with whole-word masking, which masks all pieces of a word together.

For Chinese words arXiv 1906.08101. The network, its losses and its fine-tuning are those of BERT: only the masking differs.
"""

from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.corruption import mask_whole_words
from data_pipelines.ops.framing import frame_pair
from data_pipelines.text.vocabulary import MASK, Vocabulary
from xmodels.models.bert import SIZES, Bert, BertConfig
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Bert, True
SMALL = small.MASKED
READING, WRITING = bert.READING, None
Options = bert.Options


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: BertConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns a phase of the paper: LAMB, peak 1e-4 after 10 % of 100,000 steps, in batches of 2,560 rows of 128 tokens, or of
    384 longer ones. The second phase, with rows of 512, is a run of its own that begins with the weights of the first one.
    Those of -ext have 1,000,000 and 400,000 steps."""
    options = options or Options()
    config = config or BertConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    corrupt = mask_whole_words(
        vocabulary[MASK],
        len(vocabulary),
        options.rate(records),
        records.num_predictions,
        replace_unit=records.replace_unit,
    )
    return Recipe(
        backbone=lambda: Bert(config),
        objective=lambda: bert.objective_of(config, None if records.static else corrupt, options),
        frame=rename_classic() if records.static else frame_pair(vocabulary, records.sequence_length),
        batch_size=2560 if records.sequence_length <= 128 else 384,
        num_steps=100_000,
        learning_rate=1e-4,
        num_warmup_steps=10_000,
        optimizer="lamb",
    )
