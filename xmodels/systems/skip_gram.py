"""Skip-gram with negative sampling (Mikolov et al., 2013b), with the numbers of word2vec.c."""

import dataclasses

import numpy as np

from data_pipelines.ops.windows import keep_probabilities, noise_distribution, skip_gram_pairs
from data_pipelines.text.vocabulary import EOS, SEP, Vocabulary
from xmodels.models.skip_gram import SIZES, SkipGram, SkipGramConfig
from xmodels.objectives.skip_gram import NegativeSampling
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = SkipGram, False
READING, WRITING = None, None
BASELINE = "word_vectors"  # of `xmodels compare`, which averages them


@dataclasses.dataclass(frozen=True)
class Options:
    """`window` is the largest distance of a pair, `negatives` are drawn for each, `sample` is the share of the text above which
    a word is left out now and then (0: never), and `exponent` flattens the counts of which negatives are drawn."""

    window: int = 5
    negatives: int = 5
    sample: float = 1e-3
    exponent: float = 0.75

    def __post_init__(self):
        if self.window < 1 or self.negatives < 1 or self.sample < 0:
            raise ValueError("`window` and `negatives` must be 1 or more, `sample` 0 or more.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: SkipGramConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns gradient descent from 0.025 in a line to a ten-thousandth of it; of pairs, whose gradients are summed and not
    averaged, so a batch is small: 8 runs."""
    options = options or Options()
    config = config or SkipGramConfig(len(vocabulary), **SIZES[size])
    counts = np.ones(len(vocabulary)) if records.word_counts is None else records.word_counts().astype(np.float64)
    special = sorted(vocabulary.special_ids)
    counts[special] = 0
    keep = keep_probabilities(counts, options.sample)
    keep[special] = 0.0
    return Recipe(
        backbone=lambda: SkipGram(config),
        objective=NegativeSampling,
        frame=skip_gram_pairs(
            records.sequence_length, keep, noise_distribution(counts, options.exponent), options.window, options.negatives,
            ends=tuple(vocabulary[role] for role in (EOS, SEP) if role in vocabulary),
        ),
        batch_size=8,
        num_steps=100_000,
        learning_rate=0.025,
        num_warmup_steps=0,
        optimizer="sgd",
        schedule="linear",
        min_lr_ratio=1e-4,
        clip_norm=0.0,
        packings=("stream",),
    )  # fmt: skip
