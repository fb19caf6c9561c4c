"""Stage: documents -> how often words stand near each other, weighted by their distance (Pennington et al., 2014, section 4.2)."""

import functools
import importlib.util
from collections.abc import Callable, Iterator

import numpy as np

from data_pipelines.pretraining.sorted_sums import sort_by_key, sum_by_key
from data_pipelines.pretraining.stages.pipe import Stage, in_batches
from data_pipelines.pretraining.stages.tokenize import Tokens, ids_of

AT_ONCE = 1 << 19  # pairs; sums of so many are made in memory
PLACES = 1 << 22  # for pairs of frequent words, which are summed without sorting; 32 MB
BITS = np.uint64(32)


def pair_counts(
    window: int, symmetric: bool, weighted: bool, left_out: np.ndarray, num_ids: int, at_once: int = AT_ONCE,
    places: int = PLACES,
) -> Stage:  # fmt: skip
    """Counts, for each document, the pairs of words at most `window` words apart.

    Words that are left out take no place in a window, so windows widen there, as in the released code. The stage yields sums by
    key; the key of a pair is `keys_of` the word and the other word. Sums of frequent words come last. It is fast where small ids are
    those of frequent words, and where Numba is installed.

    Args:
        symmetric: whether each word of a pair is the context of the other one. The stage then yields a pair once, the smaller id
            first, and `both_ways` gives the rest. Otherwise the first one in the text is the word, and the other one its context.
        weighted: whether a pair counts 1 / distance instead of 1.
        left_out: ids that are no words, int (X,).
        num_ids: ids are below it.
        places: for sums of frequent pairs.
    """
    step = max(1, at_once // window)  # words that are the right one of pairs
    is_word = ~np.isin(np.arange(num_ids), left_out)

    def stage(documents: Iterator[Tokens]) -> Iterator[np.ndarray]:
        count, frequent = _counting(), FrequentPairs(num_ids, places, symmetric)
        for words, positions in _gathered(documents, is_word, step):
            for begin in range(0, len(words), step):
                end = min(begin + step, len(words))
                yield count(words, positions, begin, end, window, symmetric, weighted, frequent)
        for first, second, sums in frequent.found():
            yield sort_by_key(keys_of(first, second), sums)

    return stage


def count_pairs(
    words: np.ndarray, positions: np.ndarray, begin: int, end: int, window: int, symmetric: bool, weighted: bool,
    frequent: "FrequentPairs",
) -> np.ndarray:  # fmt: skip
    """Adds the pairs of which a word from `begin` to `end` is the right one to the sums of frequent pairs.

    Args:
        words: int32 (N,).
        positions: int64 (N,), of each word in its document.

    Returns:
        Sums by key of the others.
    """
    found = []
    for distance in range(1, window + 1):
        right = np.arange(max(begin, distance), end)
        right = right[positions[right] >= distance]  # the left one is of the same document
        pair = words[right - distance], words[right]
        weight = 1 / distance if weighted else 1.0
        pair = frequent.add(*((np.minimum(*pair), np.maximum(*pair)) if symmetric else pair), weight)
        found.append((*pair, np.full(len(pair[0]), weight)))
    first, second, weights = map(np.concatenate, zip(*found, strict=True))
    return sum_by_key(keys_of(first, second), weights)


def _counting() -> Callable[..., np.ndarray]:
    """Returns `count_pairs`, compiled where Numba is installed."""
    if not importlib.util.find_spec("numba"):
        return count_pairs
    from data_pipelines.pretraining.stages import pairs_compiled

    def count(*arguments) -> np.ndarray:
        *numbers, frequent = arguments
        first, second, sums = pairs_compiled.count_pairs(*numbers, frequent.limits, frequent.offsets, frequent.sums)
        return sort_by_key(keys_of(first, second), sums)

    return count


def both_ways(entries: np.ndarray) -> np.ndarray:
    """Returns sums by key of pairs, and behind them those of the pairs the other way round; a word beside itself counts twice."""
    first, second = pairs_of(entries["key"])
    differ = first != second
    turned = entries[differ]
    turned["key"] = keys_of(second[differ], first[differ])
    straight = entries.copy()
    straight["sum"][~differ] *= 2
    return np.concatenate([straight, turned])


class FrequentPairs:
    """Sums of pairs in an array, without a search: of pairs of ids whose product is small, as in the released code.

    Args:
        num_ids: ids are below it.
        places: of the array, at most.
        ordered: whether the second id of a pair is never the smaller one.

    Attributes:
        limits: int64 (V,), below which the second id of a pair is, by the first one.
        offsets: int64 (V,), where the sum of a pair stands, by the first one, less the second one.
        sums: float64 (P,).
    """

    def __init__(self, num_ids: int, places: int, ordered: bool):
        self.limits = _limits(num_ids, places, ordered)
        least = np.arange(num_ids) if ordered else np.zeros(num_ids, np.int64)
        self.ends = np.cumsum(np.maximum(self.limits - least, 0))
        self.offsets = np.concatenate([[0], self.ends[:-1]]) - least
        self.sums = np.zeros(self.ends[-1])

    def add(self, first: np.ndarray, second: np.ndarray, weight: float) -> tuple[np.ndarray, np.ndarray]:
        """Adds a weight to pairs, (N,) each. Returns the pairs that have no place here."""
        has_place = second < self.limits[first]
        np.add.at(self.sums, self.offsets[first[has_place]] + second[has_place], weight)
        return first[~has_place], second[~has_place]

    def found(self, at_once: int = AT_ONCE) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yields the pairs with sums, and these, at most `at_once` at a time."""
        for begin in range(0, len(self.sums), at_once):
            places = begin + np.flatnonzero(self.sums[begin : begin + at_once] > 0)
            first = np.repeat(np.arange(len(self.ends)), np.diff(np.searchsorted(places, self.ends), prepend=0))
            yield first, places - self.offsets[first], self.sums[places]


@functools.lru_cache(maxsize=1)
def _limits(num_ids: int, places: int, ordered: bool) -> np.ndarray:
    """Returns below which id the second one of a pair is, by the first one, so that the pairs fit into `places`: (V,)."""
    ids = np.arange(1, num_ids + 1)
    low, high = 0, num_ids * num_ids + 1  # the largest product lies between these
    while high - low > 1:
        middle = (low + high) // 2
        count = np.maximum(np.minimum(num_ids, middle // ids) - (ids - 1) * ordered, 0).sum()
        low, high = (middle, high) if count <= places else (low, middle)
    return np.minimum(num_ids, low // ids)


def _gathered(documents: Iterator[Tokens], is_word: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the words of at least `size` pieces of documents side by side, and the place of each in its document, from 0."""
    ids = (ids_of(document.marked) for document in documents)
    for held in in_batches((pieces[is_word[pieces]] for pieces in ids), len, size):
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
