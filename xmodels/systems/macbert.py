"""MacBERT (Cui et al., 2020): BERT that corrects words which were replaced by similar ones, in place of masks.

N-grams of whole words are replaced, and the order of two segments is predicted. Similar words are those of a file of word vectors,
`--similar_words=word2vec:FILE`. Make its records with --packing=sentence_order.
"""

import dataclasses

from data_pipelines.errors import UsageError
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.similar import replace_by_similar_words
from data_pipelines.text.similar_words import NO_WORDS
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.bert import SIZES, Bert, BertConfig
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.sentence_order import SentenceOrder
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS, READS_SIMILAR_WORDS = Bert, True, True
SMALL = dataclasses.replace(
    small.MASKED, masking_rate=None
)  # little is left of a text of which two fifths are other words
READING, WRITING = bert.READING, None


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """What is replaced, and by what.

    Attributes:
        sentence_order: whether the order of two segments is predicted; without it the records have one segment.
        num_similar: the most similar words of a word, of which one is drawn.
        least_cosine: the smallest cosine of a similar word. The toolkit of the paper has no such bound.
    """

    sentence_order: bool = True
    num_similar: int = 10
    least_cosine: float = 0.5

    def __post_init__(self):
        super().__post_init__()
        if self.num_similar < 1:
            raise ValueError("`num_similar` must be at least 1.")
        if not -1 <= self.least_cosine <= 1:
            raise ValueError("`least_cosine` must lie between -1 and 1.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: BertConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the numbers of BERT-wwm-ext by the same authors: LAMB, peak 1e-4 after 10 % of 1,000,000 steps, in batches of 2,560 rows
    of 128 tokens, or of 384 longer ones.

    Raises:
        UsageError: the records are static.
    """
    if records.static:
        raise UsageError("--system=macbert: replaces words while it trains. Make the records without --masking=static.")
    options = options or Options()
    config = config or BertConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    find = records.similar_words
    similar = find(options.num_similar, options.least_cosine) if find else NO_WORDS
    corrupt = replace_by_similar_words(vocabulary, similar, options.rate(records), records.num_predictions)
    more = (SentenceOrder,) if options.sentence_order else ()
    return Recipe(
        backbone=lambda: Bert(config),
        objective=lambda: together(MaskedLM(config, corrupt), *(make(config) for make in more)),
        frame=frame_pair(vocabulary, records.sequence_length),
        batch_size=2560 if records.sequence_length <= 128 else 384,
        num_steps=1_000_000,
        learning_rate=1e-4,
        num_warmup_steps=100_000,
        optimizer="lamb",
        packings=("sentence_order",) if options.sentence_order else ("full_sentences", "doc_sentences"),
        note="" if find else "Without --similar_words, words that would become similar ones become random ones.",
    )
