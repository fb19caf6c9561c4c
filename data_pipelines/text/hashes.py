"""Looks up many runs of text at once: each is known by 64 bits, and a table finds all of them in a few calls of numpy.

Two of a million words share their 64 bits with a chance below 1e-7.
"""

import functools

import numpy as np

_FACTOR = 0x9E3779B97F4A7C17  # 3 modulo 4, so that words of the same letters differ in all bits but one or two


@functools.lru_cache(4)
def _powers(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Powers of the factor from 0 on and of its inverse from -1 on, modulo 2 ** 64."""
    inverse = pow(_FACTOR, -1, 1 << 64)
    series = [np.full(size, factor, np.uint64) for factor in (_FACTOR, inverse)]
    series[0][0], series[1][0] = 1, _FACTOR
    return np.multiply.accumulate(series[0]), np.multiply.accumulate(series[1])


class Hashes:
    """The hashes of all runs of a text, each in a few operations: the sum of code * factor ** (1 + place in the run).

    Args:
        codes: code points, unsigned (N,).
    """

    def __init__(self, codes: np.ndarray):
        powers, self.inverse = _powers(1 << len(codes).bit_length())
        self.sums = np.zeros(len(codes) + 1, np.uint64)
        np.cumsum(codes * powers[: len(codes)], out=self.sums[1:])

    def __call__(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns that of the runs [start, end), uint64; never 0."""
        return np.maximum((self.sums[ends] - self.sums[starts]) * self.inverse[starts], np.uint64(1))


class Table:
    """Numbers (from 0) by hash, in 2 ** `bits` slots, of which half may be used; the fewer, the faster."""

    def __init__(self, bits: int):
        self.shift, self.last = np.uint64(64 - bits), (1 << bits) - 1
        slots = np.zeros((1 << bits, 2), np.uint64)  # key and number side by side: one miss of the cache for both
        self.keys, self.values = slots[:, 0], slots.view(np.int64)[:, 1]

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Returns the numbers; -1 for keys that are not there."""
        slots = (keys >> self.shift).astype(np.int64)
        found = self.keys[slots]
        lost = np.flatnonzero(found != keys)
        while len(lost):
            lost = lost[found[lost] != 0]  # an empty slot ends the search
            slots[lost] = slots[lost] + 1 & self.last
            found[lost] = self.keys[slots[lost]]
            lost = lost[found[lost] != keys[lost]]
        return np.where(found == keys, self.values[slots], -1)

    def add(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Adds keys that are different and not there."""
        slots = (keys >> self.shift).astype(np.int64)
        left = np.arange(len(keys))
        while len(left):
            free = left[self.keys[slots[left]] == 0]
            self.keys[slots[free]] = keys[free]  # where several want a slot, one stays
            placed = self.keys[slots[left]] == keys[left]
            self.values[slots[left[placed]]] = values[left[placed]]
            left = left[~placed]
            slots[left] = slots[left] + 1 & self.last


def codes_of(text: str) -> np.ndarray:
    """Returns the code points of a text, uint32."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns start, start + 1, … of every range, side by side."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
