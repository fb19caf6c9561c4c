"""What vectors of words know: the nearest words, how alike words are to people, and analogies (Mikolov et al., 2013a; Levy and
Goldberg, 2014)."""

import dataclasses
import re
from collections.abc import Iterator, Sequence

import numpy as np

from data_pipelines.errors import DataError

AT_ONCE = 512  # questions that are compared with all words together


class Words:
    """Words with their vectors.

    Args:
        words: the most frequent ones first. Of words that are written alike the first one counts.
        vectors: float32 (V, D).
        limit: how many of the first words are kept; 0 for all.
        lower_case: whether the case of letters is ignored.
    """

    def __init__(self, words: Sequence[str], vectors: np.ndarray, limit: int = 0, lower_case: bool = False):
        count = limit or len(words)
        self.lower_case, self.words = lower_case, list(words[:count])
        self.unit = vectors[:count] / np.maximum(np.linalg.norm(vectors[:count], axis=1, keepdims=True), 1e-12)
        self.places: dict[str, int] = {}
        for place, word in enumerate(self.words):
            self.places.setdefault(self.fold(word), place)

    def fold(self, word: str) -> str:
        """Returns a word as it is compared."""
        return word.lower() if self.lower_case else word

    def place(self, word: str) -> int | None:
        """Returns the place of a word; None where it has no vector."""
        return self.places.get(self.fold(word))

    def neighbours(self, word: str, count: int) -> list[tuple[str, float]] | None:
        """Returns the words with the largest cosines, without the word itself; None where it has no vector."""
        place = self.place(word)
        if place is None:
            return None
        cosines = self.unit @ self.unit[place]
        cosines[place] = -np.inf
        best = np.argsort(-cosines, kind="stable")[: min(count, len(self.words) - 1)]
        return [(self.words[i], float(cosines[i])) for i in best]


@dataclasses.dataclass(frozen=True)
class Similarity:
    """Spearman's correlation of cosines with the scores of people, over the pairs that have vectors."""

    spearman: float
    pairs: int
    left_out: int


def similarity(words: Words, pairs: Sequence[tuple[str, str, float]]) -> Similarity:
    """Compares cosines with scores of people.

    Raises:
        DataError: fewer than three pairs have vectors.
    """
    from scipy.stats import spearmanr

    places = [(words.place(a), words.place(b), score) for a, b, score in pairs]
    kept = [(a, b, score) for a, b, score in places if a is not None and b is not None]
    if len(kept) < 3:
        raise DataError(f"Of {len(pairs)} pairs {len(kept)} have vectors of both words; a correlation needs three.")
    cosines = [float(words.unit[a] @ words.unit[b]) for a, b, _ in kept]
    found = spearmanr(cosines, [score for _, _, score in kept]).statistic
    return Similarity(float(found), len(kept), len(pairs) - len(kept))


@dataclasses.dataclass(frozen=True)
class Analogies:
    """Of the questions of one section: how many are right, were asked, and were left out, as a word has no vector."""

    right: int
    asked: int
    left_out: int


def analogies(
    words: Words, sections: dict[str, list[tuple[str, str, str, str]]], multiply: bool = False
) -> dict[str, Analogies]:
    """Answers a : b = c : ? by the word d that is none of the three and has the largest cos(d, b) - cos(d, a) + cos(d, c), 3CosAdd; or
    with `multiply` the largest cos(d, b) cos(d, c) / (cos(d, a) + 0.001) of cosines that are moved to 0 to 1, 3CosMul."""
    found = {}
    for section, questions in sections.items():
        places = [[words.place(word) for word in question] for question in questions]
        known = np.array([row for row in places if None not in row], np.int64).reshape(-1, 4)
        right = 0
        for begin in range(0, len(known), AT_ONCE):
            a, b, c, d = known[begin : begin + AT_ONCE].T
            if multiply:
                near = [(1.0 + words.unit[ids] @ words.unit.T) / 2.0 for ids in (a, b, c)]
                scores = near[1] * near[2] / (near[0] + 1e-3)
            else:
                scores = (words.unit[b] - words.unit[a] + words.unit[c]) @ words.unit.T  # (Q, V)
            for ids in (a, b, c):
                scores[np.arange(len(ids)), ids] = -np.inf
            right += int((scores.argmax(axis=1) == d).sum())
        found[section] = Analogies(right, len(known), len(questions) - len(known))
    return found


def read_pairs(path: str) -> list[tuple[str, str, float]]:
    """Reads pairs of words with a score, parted by commas, tabs or semicolons; a first line of names and a first column of numbers are
    skipped.

    Raises:
        DataError: a line is no pair with a score.
    """
    found = []
    for number, line in _lines(path):
        cells = [cell.strip() for cell in re.split(r"[,;\t]", line)]
        if not any(cells[1:]):
            continue
        try:
            found.append((cells[-3], cells[-2], float(cells[-1])))
        except (IndexError, ValueError):
            if number > 1:
                raise DataError(
                    f"{path}, line {number}: expected two words and a score. Found: {line[:60]!r}."
                ) from None
    if not found:
        raise DataError(f"{path}: holds no pairs of words with scores.")
    return found


def read_analogies(path: str) -> dict[str, list[tuple[str, str, str, str]]]:
    """Reads four words a line; lines such as `: family` begin sections.

    Raises:
        DataError: a line has another number of words.
    """
    found: dict[str, list] = {}
    section = "all"
    for number, line in _lines(path):
        if line.startswith(":"):
            section = line[1:].strip()
            continue
        if len(words := line.split()) != 4:
            raise DataError(f"{path}, line {number}: expected four words, or `: ` and a section. Found: {line[:60]!r}.")
        found.setdefault(section, []).append(tuple(words))
    if not found:
        raise DataError(f"{path}: holds no analogies.")
    return found


def _lines(path: str) -> Iterator[tuple[int, str]]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not valid UTF-8: {error.reason}.") from None
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
