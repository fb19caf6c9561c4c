"""GloVe (Pennington et al., 2014): word vectors from how often words stand near each other in the whole corpus.

Make its records with --packing=cooccurrence and a vocabulary of words.
"""

import dataclasses

from data_pipelines.ops.pair_counts import frame_pairs
from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.glove import SIZES, Glove, GloveConfig
from xmodels.objectives.co_occurrence import CoOccurrence
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = Glove, False
READING, WRITING = None, None


@dataclasses.dataclass(frozen=True)
class Options:
    """`x_max` is the count from which on a pair weighs 1, and `alpha` the exponent below it. `vector_rate` is the learning rate of
    vectors where that of biases is 1, as in the released code."""

    x_max: float = 100.0
    alpha: float = 0.75
    vector_rate: float = 0.05

    def __post_init__(self):
        if self.x_max <= 0 or self.alpha < 0 or self.vector_rate <= 0:
            raise ValueError("`x_max` and `vector_rate` must be above 0, `alpha` 0 or more.")


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: GloveConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns AdaGrad, whose sums begin at 1, at a constant rate; of 4 records of 1,024 pairs, whose gradients are summed, not
    averaged."""
    options = options or Options()
    config = config or GloveConfig(len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: Glove(config),
        objective=lambda: CoOccurrence(options.x_max, options.alpha, options.vector_rate),
        frame=frame_pairs(),
        batch_size=4,
        num_steps=100_000,
        learning_rate=1.0,
        num_warmup_steps=0,
        optimizer="adagrad",
        schedule="constant",
        clip_norm=0.0,
        packings=("cooccurrence",),
    )
