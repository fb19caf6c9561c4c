"""What tells arrays from others."""

import hashlib
from collections.abc import Mapping

import numpy as np

from data_pipelines.coded import CodedArray

TOGETHER = 4096  # rows that are bytes at a time: of a `CodedArray` only these are made whole


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
