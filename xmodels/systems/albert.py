"""ALBERT (Lan et al., 2019): BERT whose layers share their weights, with n-gram masking and sentence order prediction.

Its vocabulary is SentencePiece's: `xmodels train_vocabulary --tokenizer=sentencepiece`. Make its records with
--packing=sentence_order; `--set=second_objective=...` reads others.
"""

import dataclasses

from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.spans import mask_ngrams
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.interfaces.reading import Reading
from xmodels.models.albert import SIZES, Albert, AlbertConfig
from xmodels.objectives.base import together
from xmodels.objectives.masked_lm import MaskedLM
from xmodels.objectives.next_sentence import NextSentence
from xmodels.objectives.sentence_order import SentenceOrder
from xmodels.systems import bert
from xmodels.training import small
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Albert, False
SMALL = small.MASKED
# The released scripts drop a tenth of what heads read, also of the networks that have no dropout of their own.
READING, WRITING = Reading(head_dropout=0.1), None


# Name -> the objective, the label that it learns, and the packings that write it.
SECOND = {
    "sentence_order": (SentenceOrder, "sentence_order_labels", ("sentence_order",)),
    "next_sentence": (NextSentence, "next_sentence_labels", ("segment_pair",)),
    "none": (None, None, ("full_sentences", "doc_sentences")),
}


@dataclasses.dataclass(frozen=True)
class Options(bert.MaskingOptions):
    """The paper's defaults, and what it compares them with (table 5).

    Attributes:
        longest: the most words of an n-gram that is hidden.
        second_objective: beside masked LM: the order of two segments, next sentences or nothing. Each has records of its own.
    """

    longest: int = 3
    second_objective: str = "sentence_order"

    def __post_init__(self):
        super().__post_init__()
        if self.second_objective not in SECOND:
            raise ValueError(f"`second_objective` must be one of {', '.join(SECOND)}.")
        if self.longest < 1:
            raise ValueError("`longest` must be at least 1.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: AlbertConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of section 4.1: n-grams of up to three words, LAMB, batch 4,096, peak 0.00176, 125,000 steps; the
    released script warms up for 3,125."""
    options = options or Options()
    config = config or AlbertConfig(vocabulary_size=len(vocabulary), **SIZES[size])
    corrupt = mask_ngrams(vocabulary, options.rate(records), records.num_predictions, options.longest)
    second, label, packings = SECOND[options.second_objective]
    more = (second,) if second else ()
    masked = None if records.static else corrupt
    return Recipe(
        backbone=lambda: Albert(config),
        objective=lambda: together(MaskedLM(config, masked), *(make(config) for make in more)),
        frame=rename_classic(*([label] if label else []))
        if records.static
        else frame_pair(vocabulary, records.sequence_length),
        batch_size=4096,
        num_steps=125_000,
        learning_rate=1.76e-3,
        num_warmup_steps=3_125,
        optimizer="lamb",
        packings=packings,
    )
