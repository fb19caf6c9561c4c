"""Arrays many of whose rows are equal."""

import numpy as np


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
