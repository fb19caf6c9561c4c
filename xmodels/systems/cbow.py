"""CBOW, which predicts a word from the mean of those around it (Mikolov et al., 2013a), with the numbers of word2vec.c."""

import dataclasses

from data_pipelines.text.vocabulary import Vocabulary
from xmodels.models.skip_gram import SIZES, SkipGram, SkipGramConfig
from xmodels.objectives.word_windows import Center
from xmodels.systems import skip_gram
from xmodels.training.recipe import Recipe, Records

MODEL, NEEDS_WORDS = SkipGram, False
READING, WRITING = None, None


@dataclasses.dataclass(frozen=True)
class Options(skip_gram.Options):
    __doc__ = f"""{skip_gram.Options.__doc__} `true_gradient` divides the gradient among the words of a window, of which word2vec.c
    gives all to each."""

    true_gradient: bool = False


def recipe(
    vocabulary: Vocabulary,
    records: Records,
    size: str = "base",
    config: SkipGramConfig | None = None,
    options: Options | None = None,
) -> Recipe:
    """Returns the recipe of skip-gram, at twice its rate."""
    options = options or Options()
    config = config or SkipGramConfig(len(vocabulary), **SIZES[size])
    return Recipe(
        backbone=lambda: SkipGram(config),
        **skip_gram.learning(vocabulary, records, Center(options.true_gradient), options, config.hidden_dim),
        batch_size=8,
        learning_rate=0.05,
        **skip_gram.DESCENT,
    )
