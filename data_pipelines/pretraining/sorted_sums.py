"""Sums of numbers by key, out of core: sorted runs on the disk, of which a few blocks at a time are in memory.

A file of sums holds entries of 16 bytes, a key and its sum, in ascending order of the keys, each key once.
"""

import contextlib
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from data_pipelines.files import temporary_name, whole_file

ENTRY = np.dtype([("key", "<u8"), ("sum", "<f8")])
IN_MEMORY = 1 << 19  # entries, 8 MB; summing them takes about five times as much beside it


def sum_by_key(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the entries (M,) of numbers (N,) with keys (N,) in any order. Equal keys are summed one by one, in their order."""
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    del order
    is_first = np.concatenate([np.ones(min(1, len(keys)), bool), keys[1:] != keys[:-1]])
    entries = np.empty(np.count_nonzero(is_first), ENTRY)
    entries["key"] = keys[is_first]
    places = np.cumsum(is_first)
    places -= 1
    entries["sum"] = np.bincount(places, values)
    return entries


def sort_by_key(keys: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Returns the entries (N,) of sums (N,) with keys (N,) of which no two are equal."""
    order = np.argsort(keys)
    entries = np.empty(len(keys), ENTRY)
    entries["key"], entries["sum"] = keys[order], sums[order]
    return entries


def write(pieces: Iterable[np.ndarray], path: str, in_memory: int = IN_MEMORY) -> int:
    """Writes the sums over pieces, entries as of `sum_by_key`, into a file; returns how many entries it has.

    Args:
        in_memory: the most entries that are sorted at once; more of them go to the disk as runs, which are merged at the end.
    """
    runs: list[str] = []
    held: list[np.ndarray] = []

    def empty() -> None:
        runs.append(temporary_name(path))
        _joined(held).tofile(runs[-1])
        held.clear()

    try:
        for entries in pieces:
            if held and sum(map(len, held)) + len(entries) > in_memory:
                empty()
            held.append(entries)
        if runs and held:
            empty()
        count = 0
        with whole_file(path) as file:
            for entries in merge(runs, in_memory=in_memory) if runs else map(_joined, [held] if held else []):
                file.write(entries.tobytes())
                count += len(entries)
        return count
    finally:
        for run in runs:
            with contextlib.suppress(FileNotFoundError):
                os.remove(run)


def merge(paths: Sequence[str], share: int = 0, shares: int = 1, in_memory: int = IN_MEMORY) -> Iterator[np.ndarray]:
    """Yields the sums over several files, in ascending order of the keys, in blocks of at most about `in_memory` entries.

    The sums of equal keys are added in the order of the files, so that they do not depend on `in_memory`.

    Args:
        share, shares: which of so many equal parts of all keys there may be.
    """
    low, high = (share * 2**64 // shares, (share + 1) * 2**64 // shares)
    readers = [_Reader(path, low, high, max(1024, in_memory // max(1, len(paths)))) for path in paths]
    while readers := [reader for reader in readers if len(reader.fill())]:
        # Behind the least of the last keys in memory, a reader may still bring an equal one.
        until = min(reader.held["key"][-1] for reader in readers)
        yield _joined([reader.take(until) for reader in readers])


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    return sum_by_key(*(np.concatenate([entries[name] for entries in pieces]) for name in ENTRY.names))


class _Reader:
    """The entries of a file with keys from `low` on, below `high`, in blocks of `size`. The file is open only while it is read."""

    def __init__(self, path: str, low: int, high: int, size: int):
        self.path, self.size = path, size
        self.held = np.zeros(0, ENTRY)
        total = os.path.getsize(path) // ENTRY.itemsize
        with open(path, "rb") as file:
            self.place, self.end = (bisect_left(range(total), key, key=lambda i: _key(file, i)) for key in (low, high))

    def fill(self) -> np.ndarray:
        """Returns what is in memory; reads a block if that is nothing."""
        if not len(self.held) and self.place < self.end:
            count = min(self.size, self.end - self.place)
            self.held = np.fromfile(self.path, ENTRY, count, offset=self.place * ENTRY.itemsize)
            self.place += count
        return self.held

    def take(self, until: np.uint64) -> np.ndarray:
        """Returns the entries in memory up to the key `until`, and forgets them."""
        count = int(np.searchsorted(self.held["key"], until, side="right"))
        taken, self.held = self.held[:count], self.held[count:]
        return taken


def _key(file, index: int) -> int:
    file.seek(index * ENTRY.itemsize)
    return int.from_bytes(file.read(8), "little")
