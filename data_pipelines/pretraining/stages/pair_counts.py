"""Stage: documents -> how often words stand near each other, weighted by their distance (Pennington et al., 2014, section 4.2)."""

from collections.abc import Iterator

import numpy as np

from data_pipelines.pretraining.sorted_sums import sum_by_key
from data_pipelines.pretraining.stages.pipe import Stage, in_batches
from data_pipelines.pretraining.stages.tokenize import Tokens, ids_of

AT_ONCE = 1 << 21  # pairs; sums of so many are made in memory
BITS = np.uint64(32)


def pair_counts(window: int, symmetric: bool, weighted: bool, left_out: np.ndarray, at_once: int = AT_ONCE) -> Stage:
    """Counts, for each document, the pairs of words at most `window` words apart.

    Words that are left out take no place in a window, so windows widen there, as in the released code. The stage yields sums by
    key; the key of a pair is `keys_of` the word and the other word.

    Args:
        symmetric: whether each word of a pair is once the one and once the other; otherwise the first one in the text is the word, and
            the other one its context.
        weighted: whether a pair counts 1 / distance instead of 1.
        left_out: ids that are no words, int (X,).
    """
    step = max(1, at_once // (2 * window))  # words that are the right one of pairs

    def stage(documents: Iterator[Tokens]) -> Iterator[np.ndarray]:
        for words, places in _gathered(documents, left_out, step):
            for begin in range(0, len(words), step):
                yield _sums(words, places, begin, min(begin + step, len(words)))

    def _sums(words, places, begin: int, end: int) -> np.ndarray:
        keys, weights = [], []
        for distance in range(1, window + 1):
            right = np.arange(max(begin, distance), end)
            right = right[places[right] >= distance]  # the left one is of the same document
            pairs = keys_of(words[right - distance], words[right])
            mirrored = keys_of(words[right], words[right - distance]) if symmetric else pairs[:0]
            keys += [pairs, mirrored]
            weights.append(np.full(len(pairs) + len(mirrored), 1 / distance if weighted else 1.0))
        return sum_by_key(np.concatenate(keys), np.concatenate(weights))

    return stage


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
