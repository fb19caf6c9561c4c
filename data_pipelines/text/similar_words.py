"""Words that are similar by their vectors, as pieces of a tokenizer: what MacBERT puts in the place of words (Cui et al., 2020, arXiv
2004.13922).

A word is replaced by one of as many pieces, so that each place of a text keeps its label.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from data_pipelines.text.sentence_pieces import SPACE
from data_pipelines.text.tokenizer import Tokenizer

LONGEST = 8  # pieces of a word that has similar ones
MOST = 100_000  # words of a file, which are the most frequent ones
AT_ONCE = 1024  # words that are compared with all others together
STEP = 0x9E3779B97F4A7C15


@dataclasses.dataclass(frozen=True)
class SimilarWords:
    """N words, ordered by how many pieces they have.

    Attributes:
        pieces: int32 (N, LONGEST), the ids of each word, then zeros.
        sizes: int32 (N,), how many they are.
        similar: int32 (N, K), the places of similar words in the order of their cosines, then -1.
        counts: int32 (N,), how many they are.
    """

    pieces: np.ndarray
    sizes: np.ndarray
    similar: np.ndarray
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.sizes)

    def keys(self) -> np.ndarray:
        """Returns a number for each word, int64 (N,): the sum of `hashes` of its pieces and their places."""
        places = np.arange(self.pieces.shape[1])
        parts = np.where(places < self.sizes[:, None], hashes(self.pieces, places), np.uint64(0))
        return parts.sum(axis=1, dtype=np.uint64).view(np.int64)


def hashes(ids: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Returns a number for each piece at its place in a word, uint64; by the SplitMix64 of `ops.seeds`."""
    with np.errstate(over="ignore"):
        x = (ids.astype(np.uint64) * np.uint64(LONGEST) + places.astype(np.uint64) + np.uint64(1)) * np.uint64(STEP)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        return x ^ (x >> np.uint64(31))


NO_WORDS = SimilarWords(*(np.zeros(shape, np.int32) for shape in ((0, LONGEST), (0,), (0, 1), (0,))))


def find_similar_words(
    tokenizer: Tokenizer, words: Sequence[str], vectors: np.ndarray, count: int, least: float
) -> SimilarWords:
    """Returns the similar words of each word whose pieces the tokenizer knows.

    Args:
        words: the most frequent ones first; the first `MOST` count. Of words that are the same to the tokenizer the first one counts.
        vectors: (V, D).
        count: K, the most similar words of a word.
        least: the smallest cosine of a similar word.
    """
    found: dict[tuple[int, ...], int] = {}
    special = set(tokenizer.vocabulary.special_ids)
    blank = tokenizer.vocabulary.ids.get(SPACE)
    for begin in range(0, min(len(words), MOST), AT_ONCE):
        batch = words[begin : min(begin + AT_ONCE, MOST)]
        for place, pieces in enumerate(tokenizer.encode_batch(batch), begin):
            ids = tuple(int(i) for i in pieces.ids)
            ids = ids[1:] if len(ids) > 1 and ids[0] == blank else ids
            if 0 < len(ids) <= LONGEST and not special & set(ids):
                found.setdefault(ids, place)
    ordered = sorted(found, key=len)  # stable: frequent ones first
    if not ordered:
        return NO_WORDS
    sizes = np.array([len(ids) for ids in ordered], np.int32)
    pieces = np.array([ids + (0,) * (LONGEST - len(ids)) for ids in ordered], np.int32)
    unit = np.asarray(vectors, np.float32)[[found[ids] for ids in ordered]]
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    similar = np.full((len(ordered), count), -1, np.int32)
    for size in np.unique(sizes):
        first, end = np.searchsorted(sizes, (size, size + 1))
        for begin in range(first, end, AT_ONCE):
            rows = np.arange(begin, min(begin + AT_ONCE, end))
            cosines = unit[rows] @ unit[first:end].T
            cosines[np.arange(len(rows)), rows - first] = -np.inf  # itself
            most = min(count, end - first)
            best = np.argpartition(-cosines, most - 1, axis=1)[:, :most]
            values = np.take_along_axis(cosines, best, 1)
            order = np.argsort(-values, axis=1, kind="stable")
            best, values = np.take_along_axis(best, order, 1), np.take_along_axis(values, order, 1)
            similar[rows, :most] = np.where(values >= least, best + first, -1)
    return SimilarWords(pieces, sizes, similar, (similar >= 0).sum(axis=1).astype(np.int32))
