"""GloVe's text format: a line for each word, the word and its numbers, without a line before them."""

from collections.abc import Sequence

import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.files import whole_file
from xmodels.conversion.vectors.word2vec import check_finite, decode, write_lines


def write(path: str, words: Sequence[str], vectors: np.ndarray) -> None:
    """Writes words and vectors (V, D)."""
    with whole_file(path, "w", newline="\n") as file:
        write_lines(file, words, vectors)


def read(path: str) -> tuple[list[str], np.ndarray]:
    """Returns the words and the vectors, float32 (V, D).

    The first line says how many numbers follow a word. Words may hold blanks, as some of GloVe 840B do: the numbers are counted from
    the end of a line.

    Raises:
        CheckpointError: the file is empty, or a line is no UTF-8, has fewer numbers than the first one, or one that is not finite.
    """
    words: list[str] = []
    rows: list[np.ndarray] = []
    with open(path, "rb") as file:
        for number, raw in enumerate(file, start=1):
            line = decode(raw, f"{path}, line {number}")
            parts = line.rstrip("\r\n").split(" ")
            width = len(rows[0]) if rows else len(parts) - 1
            word, values = " ".join(parts[:-width]), parts[-width:]
            try:
                with np.errstate(over="ignore"):
                    vector = np.array(values, np.float32)
            except ValueError:
                vector = np.zeros(0, np.float32)
            if not word or len(vector) != width or not width:
                raise CheckpointError(f"{path}, line {number}: expected a word and {width} numbers. Found: {line:.60}")
            check_finite(vector, f"{path}, line {number}")
            words.append(word)
            rows.append(vector)
    if not rows:
        raise CheckpointError(f"{path}: holds no vectors.")
    return words, np.stack(rows)
