"""Says what vectors of words know: how alike words are to people, and analogies.

xmodels evaluate_vectors --vectors=word2vec:vectors.bin --similarity_file=wordsim353.csv --lower_case
xmodels evaluate_vectors --vectors=glove:vectors.txt --analogy_file=questions-words.txt --method=multiply
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from xmodels.tasks.base.options import AnalogyOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(AnalogyOptions):
    """Vectors of words, and files of pairs or analogies."""

    SECTION: ClassVar = "Vectors of texts"
    JOB: ClassVar = "xmodels.jobs.evaluate_vectors.run:evaluate_vectors"

    vectors: str = option(REQUIRED, "word2vec:FILE, glove:FILE, fasttext:FILE, or a run of ours.", section="Vectors")
    similarity_file: str | None = option(None, "Pairs of words with the scores of people, separated by commas or tabs.", section="Files: one of these or both")  # fmt: skip
    analogy_file: str | None = option(None, "Four words a line, of which the last is to be found, with lines such as ': family' before sections.")  # fmt: skip
