"""fastText (Bojanowski et al., 2017): skip-gram or CBOW of words that are made of their parts, with the library's numbers.

Make its records with a vocabulary of --tokenizer=word_characters and --packing=stream.
"""

import dataclasses

import numpy as np

from data_pipelines.ops.windows import word_rows
from data_pipelines.text.frames import Frame
from data_pipelines.text.subwords import word_table
from data_pipelines.text.vocabulary import SEP, UNKNOWN, Vocabulary
from xmodels.interfaces.reading import Reading, as_published, mean_of_states, normal
from xmodels.models.fasttext import SIZES, FastText, FastTextConfig
from xmodels.objectives.word_windows import Center, Contexts
from xmodels.systems import skip_gram
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = FastText, False
READING = Reading(
    frame=Frame.of(f"A {SEP} (B {SEP})"),
    summary=mean_of_states,
    make_initializer=normal,
    head_dropout=0.0,
    default_pooling=as_published,
    numbers={"learning_rate": 1e-3, "warmup_proportion": 0.0, "optimizer": "adam", "lr_schedule": "linear"},
)
WRITING = None


@dataclasses.dataclass(frozen=True)
class Options(skip_gram.Options):
    __doc__ = (
        f"""{skip_gram.Options.__doc__} `cbow` predicts a word from those around it, and not the other way round."""
    )

    sample: float = 1e-4
    exponent: float = 0.5
    cbow: bool = False


def keep_probabilities(counts: np.ndarray, sample: float) -> np.ndarray:
    """Returns how often each word is kept: min(1, sqrt(t / f) + t / f), f its share of the text (`dictionary.cc`). float64 (V,)"""
    ratios = sample * max(1.0, counts.sum()) / np.maximum(counts, 1e-9)
    return np.minimum(1.0, np.sqrt(ratios) + ratios) if sample else np.ones(len(counts))


def configuration(vocabulary: Vocabulary, size: str) -> FastTextConfig:
    """Returns the network of a size, which knows the id of words that the vocabulary lacks."""
    return FastTextConfig(len(vocabulary), unknown_id=vocabulary[UNKNOWN], **SIZES[size])


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: FastTextConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of skip-gram at twice its rate, for CBOW too."""
    options = options or Options()
    config = config or configuration(vocabulary, size)
    counts = skip_gram.word_counts(vocabulary, records)
    shares = counts / max(1.0, counts.sum())
    keep = np.where(counts > 0, keep_probabilities(counts, options.sample), 0.0)
    table = word_table(vocabulary.tokens, len(vocabulary), config.shortest_ngram, config.longest_ngram, config.buckets)
    return Recipe(
        backbone=lambda: FastText(config),
        **skip_gram.learning(
            vocabulary, records, Center() if options.cbow else Contexts(), options, config.hidden_dim, keep_probabilities,
            word_rows(*table, records.sequence_length, shares * keep),
        ),
        batch_size=8,
        learning_rate=0.05,
        **skip_gram.DESCENT,
    )  # fmt: skip
