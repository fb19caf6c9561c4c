"""fastText's vectors: `.vec`, which is word2vec's text, and whole networks in `.bin`; read also from quantized `.ftz`."""

from collections.abc import Sequence

import numpy as np

from xmodels.conversion import fasttext_files
from xmodels.conversion.sources import fasttext
from xmodels.conversion.vectors import word2vec
from xmodels.models.checkpoint import Checkpoint


def write(path: str, words: Sequence[str], vectors: np.ndarray) -> None:
    """Writes a `.vec`."""
    word2vec.write_text(path, words, vectors)


def writes_network(path: str) -> bool:
    """Returns whether a file of this name holds the whole network, and not just vectors."""
    return path.endswith(".bin")


def write_network(path: str, loaded: Checkpoint) -> int:
    """Writes a `.bin`; returns how many words it has."""
    found = fasttext.to_file(loaded, path)
    fasttext_files.write(path, found)
    return len(found.words)


def read(path: str) -> tuple[list[str], np.ndarray]:
    """Returns the words and the vectors, float32 (V, D), of any of these files, told by how it begins."""
    if not fasttext_files.is_binary(path):
        return word2vec.read_text(path)
    found = fasttext_files.read(path)
    return found.words, fasttext_files.word_vectors(found)
