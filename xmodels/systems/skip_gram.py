"""Skip-gram with negative sampling or hierarchical softmax (Mikolov et al., 2013b), with the numbers of word2vec.c."""

import dataclasses

import numpy as np

from data_pipelines.ops.compose import Op, compose
from data_pipelines.ops.windows import WordWindows, keep_probabilities, noise_distribution, tree_paths
from data_pipelines.text import huffman
from data_pipelines.text.vocabulary import EOS, SEP, Vocabulary
from xmodels.models.skip_gram import SIZES, SkipGram, SkipGramConfig
from xmodels.objectives.base import together
from xmodels.objectives.hierarchical_softmax import HierarchicalSoftmax
from xmodels.objectives.negative_sampling import NegativeSampling
from xmodels.objectives.word_windows import Center, Contexts
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = SkipGram, False
READING, WRITING = None, None
BASELINE = "word_vectors"  # of `xmodels compare`, which averages them


@dataclasses.dataclass(frozen=True)
class Options:
    """`window` is the largest distance of a pair. `negatives` count for each prediction; they are `shared_negatives` words, drawn for
    each block of 32 words, of which each counts as a share. `hierarchical_softmax` predicts by a Huffman tree, beside negatives, or
    alone where `negatives` is 0. `sample` is the share of the text above which a word is left out now and then (0: never), and
    `exponent` flattens the counts of which negatives are drawn."""

    window: int = 5
    negatives: int = 5
    shared_negatives: int = 32
    hierarchical_softmax: bool = False
    sample: float = 1e-3
    exponent: float = 0.75

    def __post_init__(self):
        if self.window < 1 or self.negatives < 0 or self.shared_negatives < 1 or self.sample < 0:
            raise ValueError(
                "`window` and `shared_negatives` must be 1 or more, `negatives` and `sample` 0 or more. Received: "
                f"window={self.window}, shared_negatives={self.shared_negatives}, negatives={self.negatives}, sample={self.sample:g}."
            )
        if not self.negatives and not self.hierarchical_softmax:
            raise ValueError("without `negatives` words are predicted by `hierarchical_softmax=true` only.")


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
    return Recipe(
        backbone=lambda: SkipGram(config),
        **learning(vocabulary, records, Contexts(), options, config.hidden_dim),
        batch_size=8,
        learning_rate=0.025,
        **DESCENT,
    )


# What all recipes for word vectors have in common.
DESCENT = {
    "num_steps": 100_000, "num_warmup_steps": 0, "optimizer": "sgd", "schedule": "linear", "min_lr_ratio": 1e-4,
    "clip_norm": 0.0, "packings": ("stream",),
}  # fmt: skip


def learning(
    vocabulary: Vocabulary, records: Records, predict: Contexts | Center, options, width: int, keep=keep_probabilities,
    further: Op | None = None,
) -> dict:  # fmt: skip
    """Returns the objective and the frame of a recipe for word vectors.

    Args:
        predict: what predicts what.
        options: `Options`, or others that have its fields.
        width: of the vectors.
        keep: (counts, sample) -> how often each word is kept.
        further: an op that adds what the network reads of words.
    """
    counts = word_counts(vocabulary, records)
    kept = np.where(counts > 0, keep(counts, options.sample), 0.0)
    objectives, ops = [], [further] if further else []
    if options.negatives:
        objectives.append(lambda: NegativeSampling(predict, options.window, options.negatives))
    if options.hierarchical_softmax:
        stay = counts * kept
        ops.append(tree_paths(*huffman.paths(counts), stay / max(1.0, stay.sum())))
        objectives.append(lambda: HierarchicalSoftmax(predict, options.window, len(vocabulary) - 1, width))
    frame = WordWindows(
        records.sequence_length, counts / max(1.0, counts.sum()), kept, noise_distribution(counts, options.exponent),
        options.window, options.shared_negatives if options.negatives else 0,
        tuple(vocabulary[role] for role in (EOS, SEP) if role in vocabulary), compose(*ops),
    )  # fmt: skip
    made = objectives[0] if len(objectives) == 1 else lambda: together(*(make() for make in objectives))
    return {"objective": made, "frame": frame}


def word_counts(vocabulary: Vocabulary, records: Records, words: tuple[str, ...] = ()) -> np.ndarray:
    """Returns how often each word occurs in the records, float64 (V,); 0 for what is no word.

    Args:
        words: roles of special tokens that count as words.
    """
    counts = np.ones(len(vocabulary)) if records.word_counts is None else records.word_counts().astype(np.float64)
    counts[sorted(set(vocabulary.special_ids) - {vocabulary[role] for role in words if role in vocabulary.roles})] = 0
    return counts
