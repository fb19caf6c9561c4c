"""Columns of numbers -> serialized `tf.train.Example`s, without TensorFlow.

Its import costs six seconds and 400 MB in every worker, while an example is a few protobuf fields. The tests read the result
with TensorFlow.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from data_pipelines.features import lengths_of

# name -> (N, L, ...), or the values of N rows side by side, (T, ...), with the length of each
Columns = Mapping[str, np.ndarray | tuple[np.ndarray, np.ndarray]]


@functools.lru_cache(1 << 14)  # lengths, mostly
def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varints(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns whole numbers as protobuf writes them: the bytes of all, and how many each takes (None: one each)."""
    most = 1 if values.dtype == np.uint8 else int(values.max(initial=0))
    if most < 128:
        return values.astype(np.uint8), None
    width = -(-most.bit_length() // 7)
    digits, used = np.empty((len(values), width), np.uint8), np.ones((len(values), width), bool)
    sizes = np.ones(len(values), np.uint8)
    values = values.astype(np.uint32 if most < 1 << 32 else np.uint64)
    for byte in range(width):  # seven bits each, the lowest first; the eighth says that another byte follows
        more = (values > 127).view(np.uint8)
        digits[:, byte] = (values & 127).astype(np.uint8) | more << 7
        values = values >> 7
        if byte + 1 < width:
            used[:, byte + 1] = more
            sizes += more
    return digits[used], sizes


def _field(number: int, payload: bytes) -> bytes:
    """Returns a length-delimited protobuf field."""
    return bytes((number << 3 | 2,)) + _varint(len(payload)) + payload


class _Heads(dict):
    """What stands before the payload of a feature, by the length of the payload: it differs only by the lengths."""

    def __init__(self, name: str, is_float: bool):
        super().__init__()
        self.name, self.kind = name.encode(), 2 if is_float else 3

    def __missing__(self, length: int) -> bytes:
        payload = bytes(length)
        entry = _field(1, _field(1, self.name) + _field(2, _field(self.kind, _field(1, payload))))
        self[length] = head = entry[: len(entry) - length]
        return head


@functools.cache
def _heads(name: str, is_float: bool) -> _Heads:
    return _Heads(name, is_float)


def encode_examples(columns: Columns) -> list[bytes]:
    """Returns serialized `tf.train.Example`s, one a row. Arrays of floats become float lists, others int64 lists.

    Whole numbers must not be negative.
    """
    parts: list[list[bytes]] = []
    fixed: list[np.ndarray] = []  # neighbouring features whose payload is as long in every row: uint8 (N, bytes)
    total: int | np.ndarray = 0  # bytes of each example

    def close() -> None:
        if fixed:
            together = np.concatenate(fixed, axis=1)
            parts.append(_cut(together.tobytes(), range(0, together.size + 1, together.shape[1])))
            fixed.clear()

    for name in sorted(columns):
        column = columns[name]
        is_float, data, widths = _payloads(*((column, None) if isinstance(column, np.ndarray) else column))
        rows, heads = len(widths), _heads(name, is_float)
        if (widths == widths[0]).all():
            head = np.frombuffer(heads[int(widths[0])], np.uint8)
            fixed += [np.broadcast_to(head, (rows, len(head))), data.reshape(rows, -1)]
            total = total + len(head) + int(widths[0])
        else:
            close()
            parts.append([heads[width] for width in widths.tolist()])
            parts.append(_cut(data.tobytes(), [0, *np.cumsum(widths).tolist()]))
            total = total + widths + list(map(len, parts[-2]))
    close()
    parts.insert(0, list(map(_opening, np.broadcast_to(total, rows).tolist())))
    return list(map(b"".join, zip(*parts, strict=True)))


def ragged_columns(name: str, rows: Sequence[Sequence[Sequence[int]]], most: int) -> Columns:
    """Returns the columns of a ragged feature.

    Args:
        rows: of each example the numbers of each of its words.
        most: numbers of a word; further ones are left out.
    """
    cut = [[np.asarray(word)[:most] for word in example] for example in rows]
    words = [word for example in cut for word in example]
    lengths = np.array([len(word) for word in words], np.int64)
    values = np.concatenate(words) if words else np.zeros(0, np.int64)
    totals = np.array([sum(map(len, example)) for example in cut], np.int64)
    return {name: (values, totals), lengths_of(name): (lengths, np.array(list(map(len, cut)), np.int64))}


def _payloads(values: np.ndarray, lengths: np.ndarray | None) -> tuple[bool, np.ndarray, np.ndarray]:
    """Returns whether the values are floats, their bytes, and how many bytes each row has."""
    shape, values = values.shape, values.ravel()
    if lengths is None:
        shape = shape[0], math.prod(shape[1:])
        lengths = np.full(*shape)
    elif len(shape) > 1:
        shape, lengths = values.shape, lengths * math.prod(shape[1:])
    if values.dtype.kind == "f":
        return True, values.astype("<f4").view(np.uint8), 4 * lengths
    data, sizes = _varints(values)
    if sizes is None:
        return False, data, lengths
    if len(shape) == 2:
        return False, data, sizes.reshape(shape).sum(axis=1, dtype=np.int64)
    ends = np.append(0, np.cumsum(sizes, dtype=np.int64))[np.cumsum(lengths)]
    return False, data, np.diff(ends, prepend=0)


def _cut(data: bytes, bounds: Sequence[int]) -> list[bytes]:
    return [data[begin:end] for begin, end in itertools.pairwise(bounds)]


@functools.lru_cache(1 << 14)
def _opening(size: int) -> bytes:
    """Returns what stands before the features of an example of that many bytes: field 1."""
    return b"\n" + _varint(size)
