"""word2vec's formats: text, and binary where the name ends in `.bin`; gensim and fastText read and write them too."""

from collections.abc import Sequence

import numpy as np

from data_pipelines.errors import CheckpointError


def write(path: str, words: Sequence[str], vectors: np.ndarray) -> None:
    """Writes one of the two formats, told by the name."""
    (write_binary if path.endswith(".bin") else write_text)(path, words, vectors)


def read(path: str) -> tuple[list[str], np.ndarray]:
    """Returns words and vectors of one of the two formats, told by the name."""
    return (read_binary if path.endswith(".bin") else read_text)(path)


def write_text(path: str, words: Sequence[str], vectors: np.ndarray) -> None:
    """A line with the number of words and the width, then a line for each word: the word, and its numbers."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n")
        for word, vector in zip(words, vectors, strict=True):
            file.write(f"{word} {' '.join(map(str, vector.astype(np.float32)))}\n")


def write_binary(path: str, words: Sequence[str], vectors: np.ndarray) -> None:
    """The same first line; then for each word its bytes, a blank, its numbers as little-endian float32, and a line feed."""
    with open(path, "wb") as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            file.write(word.encode() + b" " + vector.astype("<f4").tobytes() + b"\n")


def read_text(path: str) -> tuple[list[str], np.ndarray]:
    """Words and vectors of a text file. Raises a CheckpointError where a line has another width than the first one says."""
    words, rows = [], []
    with open(path, encoding="utf-8") as file:
        count, width = map(int, next(file).split())
        for number, line in enumerate(file, start=2):
            word, *values = line.rstrip().rsplit(" ", width)  # a word may hold blanks
            if len(values) != width:
                raise CheckpointError(f"{path}, line {number}: {len(values)} numbers, but its first line says {width}.")
            words.append(word)
            rows.append(values)
    _check_count(path, count, words)
    return words, np.array(rows, np.float32)


def read_binary(path: str) -> tuple[list[str], np.ndarray]:
    """Words and vectors of a binary file. Raises a CheckpointError where it is cut off."""
    with open(path, "rb") as file:
        count, width = map(int, file.readline().split())
        rest, place, words = file.read(), 0, []
        vectors = np.zeros((count, width), np.float32)
        for row in range(count):
            blank = rest.find(b" ", place)
            if blank < 0 or len(rest) < blank + 1 + 4 * width:
                break
            words.append(rest[place:blank].lstrip(b"\n").decode())  # some writers leave the line feed out
            vectors[row] = np.frombuffer(rest, "<f4", width, blank + 1)
            place = blank + 1 + 4 * width
    _check_count(path, count, words)
    return words, vectors


def _check_count(path: str, count: int, words: list[str]) -> None:
    if len(words) != count:
        raise CheckpointError(f"{path}: {len(words)} words, but its first line says {count}. Copy the file again.")
