"""word2vec's formats: text, and binary where the name ends in `.bin`; gensim and fastText read and write them too."""

from collections.abc import Sequence
from typing import TextIO

import numpy as np

from data_pipelines.errors import CheckpointError
from data_pipelines.files import whole_file

LONGEST_HEADER = 200  # bytes of the first line
LARGEST_WIDTH = 1 << 20


def write(path: str, words: Sequence[str], vectors: np.ndarray) -> None:
    """Writes one of the two formats, told by the name."""
    (write_binary if path.endswith(".bin") else write_text)(path, words, vectors)


def read(path: str) -> tuple[list[str], np.ndarray]:
    """Returns words and vectors of one of the two formats, told by the name."""
    return (read_binary if path.endswith(".bin") else read_text)(path)


def write_text(path: str, words: Sequence[str], vectors: np.ndarray) -> None:
    """Writes a line with the number of words and the width, then a line for each word: the word, and its numbers."""
    with whole_file(path, "w", newline="\n") as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n")
        write_lines(file, words, vectors)


def write_lines(file: TextIO, words: Sequence[str], vectors: np.ndarray) -> None:
    """Writes a line for each word: the word, and its numbers."""
    for word, vector in zip(words, vectors, strict=True):
        file.write(f"{word} {' '.join(map(str, vector.astype(np.float32)))}\n")


def write_binary(path: str, words: Sequence[str], vectors: np.ndarray) -> None:
    """Writes the same first line; then for each word its bytes, a blank, its numbers as little-endian float32, and a line feed."""
    with whole_file(path) as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            file.write(word.encode() + b" " + vector.astype("<f4").tobytes() + b"\n")


def read_text(path: str) -> tuple[list[str], np.ndarray]:
    """Returns words and vectors of a text file.

    Raises:
        CheckpointError: a line is no UTF-8, or has another width than the first one says, or something that is no number.
    """
    words, rows = [], []
    with open(path, "rb") as file:
        count, width = _header(path, file.readline(LONGEST_HEADER))
        for number, line in enumerate(file, start=2):
            text = decode(line, f"{path}, line {number}").rstrip(" \t\r\n")
            word, *values = text.rsplit(" ", width)  # a word may hold blanks
            if len(values) != width:
                raise CheckpointError(f"{path}, line {number}: {len(values)} numbers, but its first line says {width}.")
            try:
                with np.errstate(over="ignore"):
                    row = np.array(values, np.float32)
            except ValueError as error:
                raise CheckpointError(
                    f"{path}, line {number}: expected {width} numbers behind a word ({error})."
                ) from None
            check_finite(row, f"{path}, line {number}")
            words.append(word)
            rows.append(row)
    _check_count(path, count, words)
    return words, np.array(rows, np.float32).reshape(len(words), width)


def read_binary(path: str) -> tuple[list[str], np.ndarray]:
    """Returns words and vectors of a binary file.

    Raises:
        CheckpointError: it is cut off, or a word is empty or no UTF-8.
    """
    with open(path, "rb") as file:
        count, width = _header(path, file.readline(LONGEST_HEADER))
        rest = file.read()
    if count > len(rest) // (4 * width + 1):
        raise CheckpointError(
            f"{path}: its first line says {count} words of {width} numbers, for which its {len(rest):,} bytes are too few. Copy the "
            "file again."
        )
    place, words, vectors = 0, [], np.zeros((count, width), np.float32)
    for row in range(count):
        while rest[place : place + 1] in (b"\n", b"\r"):  # some writers leave them out
            place += 1
        blank = rest.find(b" ", place)
        if blank == place and rest[place + 1 : place + 2] == b" ":  # the word is a blank
            blank += 1
        if blank < 0 or len(rest) < blank + 1 + 4 * width:
            break
        where = f"{path}, word {row + 1}"
        if blank == place:
            raise CheckpointError(f"{where}: it has no characters. Is the width {width} of the first line right?")
        words.append(decode(rest[place:blank], where))
        vectors[row] = np.frombuffer(rest, "<f4", width, blank + 1)
        check_finite(vectors[row], where)
        place = blank + 1 + 4 * width
    _check_count(path, count, words)
    return words, vectors


def _header(path: str, line: bytes) -> tuple[int, int]:
    """Returns the number of words and the width, which the first line says."""
    parts = line.removeprefix(b"\xef\xbb\xbf").split()
    numbers = [int(part) for part in parts if part.isdigit() and len(part) < 12]
    if len(parts) != 2 or len(numbers) != 2 or not 0 < numbers[1] <= LARGEST_WIDTH:
        raise CheckpointError(
            f"{path}, line 1: expected the number of words and the width of their vectors, such as '400000 300'. Found: "
            f"{line[:60].decode(errors='replace').rstrip()!r}. GloVe's files lack this line: put it before the others."
        )
    return numbers[0], numbers[1]


def decode(word: bytes, where: str) -> str:
    """Returns a text. Raises a CheckpointError that begins with `where` if it is no UTF-8."""
    try:
        return word.decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{where}: not valid UTF-8 at byte {error.start + 1}: {word[:40]!r}.") from None


def check_finite(row: np.ndarray, where: str) -> None:
    """Raises a CheckpointError that begins with `where` if a number is NaN or infinity."""
    if not np.isfinite(row).all():
        raise CheckpointError(f"{where}: numbers that are not finite.")


def _check_count(path: str, count: int, words: list[str]) -> None:
    if len(words) != count:
        raise CheckpointError(f"{path}: {len(words)} words, but its first line says {count}. Copy the file again.")
