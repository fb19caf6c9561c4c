"""Says what vectors of words know: how alike words are to people, and analogies.

xmodels evaluate_vectors --vectors=word2vec:vectors.bin --similarity_file=wordsim353.csv --lower_case
xmodels evaluate_vectors --vectors=glove:vectors.txt --analogy_file=questions-words.txt --method=multiply
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Vectors of words, and files of pairs or analogies."""

    SECTION: ClassVar = "Vectors of texts"
    JOB: ClassVar = "xmodels.jobs.evaluate_vectors.run:evaluate_vectors"

    vectors: str = option(REQUIRED, "word2vec:FILE, glove:FILE, fasttext:FILE, or a run of ours.", section="Vectors")
    vocabulary_limit: int = option(0, "Keep only so many of the first words, which are the most frequent ones. 0: all.", minimum=0)  # fmt: skip
    lower_case: bool = option(False, "Ignore the case of letters.")
    similarity_file: str | None = option(None, "Pairs of words with the scores of people, separated by commas or tabs.", section="Files: one of these or both")  # fmt: skip
    analogy_file: str | None = option(None, "Four words a line, of which the last is to be found, with lines such as ': family' before sections.")  # fmt: skip
    method: str = option("add", "How analogies are answered. add: 3CosAdd (Mikolov et al., 2013). multiply: 3CosMul (Levy and Goldberg, 2014).", choices=("add", "multiply"))  # fmt: skip
