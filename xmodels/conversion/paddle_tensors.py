"""Files of single tensors, as PaddlePaddle's static graphs save them: `paddle/fluid/framework/lod_tensor.cc` and `framework.proto`.

A file holds a version, levels of detail, a version, a message that says the type and the dimensions, and the numbers. Nothing in it
is code.
"""

import math
import struct

import numpy as np

from data_pipelines.errors import CheckpointError

TYPES = {4: "<f2", 5: "<f4", 6: "<f8"}  # `VarType.Type` -> numbers of weights
VARINT = 0  # how a field of a protocol buffer is written
DATA_TYPE, DIMS = 1, 2  # fields of `TensorDesc`
MOST_DIMS = 8


def read_tensor(path: str) -> np.ndarray:
    """Returns the tensor of a file. Raises a CheckpointError where it is damaged, or holds no floating-point numbers."""
    with open(path, "rb") as file:
        contents = file.read()
    try:
        return _tensor(contents)
    except (struct.error, ValueError, IndexError) as error:
        raise CheckpointError(f"{path}: not a readable tensor of PaddlePaddle ({error}).") from None


def _tensor(contents: bytes) -> np.ndarray:
    version, levels = struct.unpack_from("<IQ", contents)
    if version or levels:
        raise ValueError(f"version {version} with {levels} levels of detail; weights have version 0 and none")
    version, size = struct.unpack_from("<Ii", contents, 12)
    if version or not 0 < size <= len(contents) - 20:
        raise ValueError(f"version {version}, description of {size} bytes")
    kind, dims = _description(contents[20 : 20 + size])
    if kind not in TYPES:
        raise ValueError(f"type {kind}; expected one of {', '.join(map(str, TYPES))}")
    numbers, wanted = contents[20 + size :], math.prod(dims) * np.dtype(TYPES[kind]).itemsize
    if not dims or len(dims) > MOST_DIMS or len(numbers) != wanted:
        raise ValueError(f"dimensions {dims} are {wanted} bytes, and {len(numbers)} are there")
    return np.frombuffer(numbers, TYPES[kind]).reshape(dims)


def _description(message: bytes) -> tuple[int, list[int]]:
    """Returns the type and the dimensions of a `TensorDesc`."""
    kind, dims, place = -1, [], 0
    while place < len(message):
        tag, place = _varint(message, place)
        if tag & 7 != VARINT or tag >> 3 not in (DATA_TYPE, DIMS):
            raise ValueError(f"unknown field {tag >> 3} in its description")
        value, place = _varint(message, place)
        if tag >> 3 == DATA_TYPE:
            kind = value
        else:
            dims.append(value)
    return kind, dims


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Returns a number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while True:
        byte = message[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place
        if shift > 63:
            raise ValueError("a number of its description has no end")
