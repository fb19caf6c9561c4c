"""Prints the words whose vectors are nearest to those of given words.

xmodels neighbours --vectors=word2vec:vectors.bin --words=king,Paris --top_k=5
xmodels neighbours --vectors=glove:vectors.txt --words=king,Paris,green --plots=pictures
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Vectors of words, and the words that are asked about."""

    SECTION: ClassVar = "Vectors of texts"
    JOB: ClassVar = "xmodels.jobs.neighbours.run:neighbours"

    vectors: str = option(REQUIRED, "word2vec:FILE, glove:FILE, fasttext:FILE, or a run of ours.", section="Vectors")
    words: str = option(REQUIRED, "Words, separated by commas.")
    top_k: int = option(10, "Neighbours of each word.", minimum=1)
    plots: str | None = option(
        None, "Folder for a map of the words and their neighbours, neighbours.png, by t-SNE.", section="Output"
    )
