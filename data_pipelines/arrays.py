"""Arrays many of whose rows are equal, and what tells arrays from others."""

import hashlib
from collections.abc import Mapping

import numpy as np

TOGETHER = 4096  # rows that are bytes at a time: of a `CodedArray` only these are made whole


class CodedArray:
    """An array (N, L, ...) that holds each of its different rows once: it equals `table[codes]`, and becomes it where NumPy asks.

    Args:
        codes: int32 (N, L), places in the table.
        table: (V, ...), the different rows. The first is zeros, so that codes of 0 are padding.
    """

    def __init__(self, codes: np.ndarray, table: np.ndarray):
        self.codes, self.table = codes, table
        self.shape, self.dtype = codes.shape + table.shape[1:], table.dtype
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index) -> "CodedArray":
        """Returns a part, by an index of the axes that the codes have."""
        return CodedArray(self.codes[index], self.table)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.table[self.codes].astype(dtype or self.dtype, copy=False)


def arrays_sha256(arrays: Mapping[str, np.ndarray | CodedArray]) -> str:
    """Returns the SHA-256 of named arrays: of their names, types, shapes and numbers."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        if not isinstance(array, CodedArray):
            array = np.ascontiguousarray(array)
        found.update(f"{name} {array.dtype} {array.shape}\n".encode())
        for first in range(0, len(array), TOGETHER):
            part = np.ascontiguousarray(array[first : first + TOGETHER])
            found.update(part.data.cast("B") if part.size else b"")
    return found.hexdigest()
