"""TFRecord shards, written atomically and without TensorFlow: a record is a length, a checksum and its bytes."""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import os
import struct
from collections.abc import Sequence

import google_crc32c
import numpy as np

from data_pipelines.errors import DataError
from data_pipelines.files import temporary_name
from data_pipelines.schema import Count, FileName, Sha256

CHUNK = 1024  # records; a shard knows where every chunk begins, so that reading starts anywhere


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of a data folder.

    `offsets` says at which byte the records 0, CHUNK, 2 CHUNK, ... begin; folders written by older versions lack it.
    """

    name: FileName
    examples: Count
    bytes: Count
    sha256: Sha256
    offsets: list[int] = dataclasses.field(default_factory=list)

    @property
    def num_chunks(self) -> int:
        return -(-self.examples // CHUNK)


@functools.lru_cache(1 << 14)
def _frame(length: int) -> bytes:
    """Returns what stands before a record of that length: the length and its checksum."""
    packed = struct.pack("<Q", length)
    return packed + masked_crcs([packed]).tobytes()


def masked_crcs(records: Sequence[bytes]) -> np.ndarray:
    """Returns the checksums of records as TFRecord writes them, uint32 (N,)."""
    crcs = np.fromiter(map(google_crc32c.value, records), np.uint32, len(records))
    return ((crcs >> 15 | crcs << 17) + np.uint32(0xA282EAD8)).astype("<u4")


class ShardWriter:
    """Writes one TFRecord file under a temporary name, and renames it when it is whole.

    Use as a context manager: an exception leaves nothing behind.
    """

    def __init__(self, path: str):
        self.path = path
        self.temporary = temporary_name(path)
        self.num_examples = 0
        self.num_bytes = 0
        self.digest = hashlib.sha256()
        self.offsets: list[int] = []

    def __enter__(self):
        self.file = open(self.temporary, "xb", buffering=1 << 20)
        return self

    def write(self, *records: bytes) -> None:
        """Appends records."""
        lengths = np.fromiter(map(len, records), np.int64, len(records))
        begins = self.num_bytes + np.cumsum(lengths + 16) - (lengths + 16)
        self.offsets += begins[-self.num_examples % CHUNK :: CHUNK].tolist()
        self.num_examples += len(records)
        self.num_bytes += int(lengths.sum()) + 16 * len(records)
        crcs = masked_crcs(records).tobytes()
        tails = (crcs[begin : begin + 4] for begin in range(0, len(crcs), 4))
        parts = zip(map(_frame, lengths.tolist()), records, tails, strict=True)
        framed = b"".join(itertools.chain.from_iterable(parts))
        self.file.write(framed)
        self.digest.update(framed)

    def __exit__(self, error_type, error, traceback):
        try:
            if error_type is None:
                self.file.flush()
                os.fsync(self.file.fileno())
                self.file.close()
                os.replace(self.temporary, self.path)
        finally:
            if os.path.exists(self.temporary):
                with contextlib.suppress(OSError):  # closing writes what is buffered; the disk may be full
                    self.file.close()
                os.remove(self.temporary)

    def shard(self) -> Shard:
        """Returns what was written."""
        return Shard(
            os.path.basename(self.path), self.num_examples, self.num_bytes, self.digest.hexdigest(), self.offsets
        )


def chunk_offsets(path: str, shard: Shard) -> list[int]:
    """Returns where the chunks of a shard begin; read off the lengths of its records where the manifest does not say.

    Raises:
        DataError: the file ends before its last record, or holds more.
    """
    if len(shard.offsets) == shard.num_chunks:
        return shard.offsets
    offsets, place, size = [], 0, os.path.getsize(path)
    with open(path, "rb") as file:
        for number in range(shard.examples):
            if number % CHUNK == 0:
                offsets.append(place)
            file.seek(place)
            header = file.read(12)
            if len(header) < 12 or header != _frame(*struct.unpack("<Q", header[:8])):
                raise DataError(
                    f"{path}: damaged at byte {place:,}: no record begins there. Copy or make the file anew."
                )
            place += 16 + struct.unpack("<Q", header[:8])[0]
    if place != size:
        raise DataError(f"{path}: {size:,} bytes, but its {shard.examples:,} records end at byte {place:,}.")
    return offsets


def check_lengths(path: str, most: int | None = None) -> None:
    """Raises a DataError where a record ends behind its file: TensorFlow would take what it says for true, and may end the process.

    Args:
        most: records to look at; by default all, and then the last one must end where the file does.
    """
    place, seen, size = 0, 0, os.path.getsize(path)
    with open(path, "rb") as file:
        while place < size and (most is None or seen < most):
            file.seek(place)
            place, seen = place + 16 + int.from_bytes(file.read(8), "little"), seen + 1
    if place > size or (most is None and place != size):
        last = "last record" if most is None else f"record {seen}"
        raise DataError(
            f"{path}: damaged or cut TFRecord file (its {last} ends at byte {place:,}, the file at {size:,})."
        )
