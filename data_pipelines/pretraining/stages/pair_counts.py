"""Stage: documents -> how often words stand near each other, weighted by their distance (Pennington et al., 2014, section 4.2)."""

import functools
from collections.abc import Iterator

import numpy as np

from data_pipelines.pretraining.sorted_sums import sum_by_key
from data_pipelines.pretraining.stages.pipe import Stage, in_batches
from data_pipelines.pretraining.stages.tokenize import Tokens, ids_of

AT_ONCE = 1 << 21  # pairs; sums of so many are made in memory
PLACES = 1 << 22  # for pairs of frequent words, which are summed without sorting; 32 MB
BITS = np.uint64(32)


def pair_counts(
    window: int, symmetric: bool, weighted: bool, left_out: np.ndarray, num_ids: int, at_once: int = AT_ONCE,
    places: int = PLACES,
) -> Stage:  # fmt: skip
    """Counts, for each document, the pairs of words at most `window` words apart.

    Words that are left out take no place in a window, so windows widen there, as in the released code. The stage yields sums by
    key; the key of a pair is `keys_of` the word and the other word. Sums of frequent words come last. It is fast where small ids are
    those of frequent words.

    Args:
        symmetric: whether each word of a pair is once the one and once the other; otherwise the first one in the text is the word, and
            the other one its context.
        weighted: whether a pair counts 1 / distance instead of 1.
        left_out: ids that are no words, int (X,).
        num_ids: ids are below it.
        places: for sums of frequent pairs.
    """
    step = max(1, at_once // (2 * window))  # words that are the right one of pairs

    def stage(documents: Iterator[Tokens]) -> Iterator[np.ndarray]:
        frequent = FrequentPairs(num_ids, places)
        for words, positions in _gathered(documents, left_out, step):
            for begin in range(0, len(words), step):
                yield _sums(words, positions, begin, min(begin + step, len(words)), frequent)
        yield _both_ways(*frequent.found())

    def _sums(words, positions, begin: int, end: int, frequent: "FrequentPairs") -> np.ndarray:
        """Adds to the sums of frequent pairs. Returns those of the others."""
        found = []
        for distance in range(1, window + 1):
            right = np.arange(max(begin, distance), end)
            right = right[positions[right] >= distance]  # the left one is of the same document
            pair = words[right - distance], words[right]
            weight = 1 / distance if weighted else 1.0
            pair = frequent.add(*((np.minimum(*pair), np.maximum(*pair)) if symmetric else pair), weight)
            found.append((*pair, np.full(len(pair[0]), weight)))
        return _both_ways(*map(np.concatenate, zip(*found, strict=True)))

    def _both_ways(first, second, sums) -> np.ndarray:
        keys = keys_of(first, second)
        if symmetric:
            keys, sums = np.concatenate([keys, keys_of(second, first)]), np.concatenate([sums, sums])
        return sum_by_key(keys, sums)

    return stage


class FrequentPairs:
    """Sums of pairs in an array, without a search: of pairs of ids whose product is small, as in the released code.

    Args:
        num_ids: ids are below it.
        places: of the array, at most.
    """

    def __init__(self, num_ids: int, places: int):
        self.sizes = _sizes(num_ids, places)  # with how many ids an id has places
        self.begins = np.cumsum(self.sizes) - self.sizes
        self.sums = np.zeros(self.sizes.sum())

    def add(self, first: np.ndarray, second: np.ndarray, weight: float) -> tuple[np.ndarray, np.ndarray]:
        """Adds a weight to pairs, (N,) each. Returns the pairs that have no place here."""
        has_place = second < self.sizes[first]
        np.add.at(self.sums, self.begins[first[has_place]] + second[has_place], weight)
        return first[~has_place], second[~has_place]

    def found(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the pairs with sums, and these, (P,) each."""
        places = np.flatnonzero(self.sums)
        first = np.searchsorted(self.begins + self.sizes, places, side="right")
        return first, places - self.begins[first], self.sums[places]


@functools.lru_cache(maxsize=1)
def _sizes(num_ids: int, places: int) -> np.ndarray:
    """Returns with how many ids each id, from 0 on, has a product small enough that all such pairs fit into `places`."""
    ids = np.arange(1, num_ids + 1)
    low, high = 0, num_ids * num_ids + 1  # the largest product lies between these
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if np.minimum(num_ids, middle // ids).sum() <= places else (low, middle)
    return np.minimum(num_ids, low // ids)


def _gathered(documents: Iterator[Tokens], left_out: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the words of at least `size` pieces of documents side by side, and the place of each in its document, from 0."""
    ids = (ids_of(document.marked) for document in documents)
    for held in in_batches((words[~np.isin(words, left_out)] for words in ids), len, size):
        yield np.concatenate(held), np.concatenate([np.arange(len(words)) for words in held])


def keys_of(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns a key for each pair of ids, uint64 (N,): another one for every pair, and in no order that has to do with words.

    So pairs that are sorted by it are shuffled, and a part of all keys is a sample of all pairs (the finalizer of SplitMix64).
    """
    z = rows.astype(np.uint64) << BITS | columns.astype(np.uint64)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def pairs_of(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of pairs, int64 (N,) each: the inverse of `keys_of`."""
    z = keys ^ keys >> np.uint64(31) ^ keys >> np.uint64(62)
    z = z * np.uint64(0x319642B2D24D8EC3)
    z = (z ^ z >> np.uint64(27) ^ z >> np.uint64(54)) * np.uint64(0x96DE1B173F119089)
    z = z ^ z >> np.uint64(30) ^ z >> np.uint64(60)
    return (z >> BITS).astype(np.int64), (z & np.uint64(0xFFFFFFFF)).astype(np.int64)
