"""TFRecord shards of `tf.train.Example`, written atomically, and the manifest that readers check.

Writing needs no TensorFlow: its import costs six seconds and 400 MB in every worker, while a record is a length, a
checksum and a few protobuf fields. The tests read the result with TensorFlow.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import google_crc32c
import numpy as np

from data_pipelines.errors import DataError
from data_pipelines.features import Feature, Features

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
CHUNK = 1024  # records; the manifest holds where every chunk begins, so that reading starts anywhere


@functools.lru_cache(1 << 14)  # lengths, mostly
def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


# name -> (N, L), or the values of N rows side by side with the length of each
Columns = Mapping[str, np.ndarray | tuple[np.ndarray, np.ndarray]]


def _varints(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers as protobuf writes them: the bytes of all, and how many each takes (None: one each)."""
    most = 1 if values.dtype == np.uint8 else int(values.max(initial=0))
    if most < 128:
        return values.astype(np.uint8), None
    width = -(-most.bit_length() // 7)
    digits, held = np.empty((len(values), width), np.uint8), np.ones((len(values), width), bool)
    sizes = np.ones(len(values), np.uint8)
    values = values.astype(np.uint32 if most < 1 << 32 else np.uint64)
    for byte in range(width):  # seven bits each, the lowest first; the eighth says that another byte follows
        more = (values > 127).view(np.uint8)
        digits[:, byte] = (values & 127).astype(np.uint8) | more << 7
        values = values >> 7
        if byte + 1 < width:
            held[:, byte + 1] = more
            sizes += more
    return digits[held], sizes


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
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
    """Serialized `tf.train.Example`s, one a row. Arrays of floats become float lists, others int64 lists.

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


def _payloads(values: np.ndarray, lengths: np.ndarray | None) -> tuple[bool, np.ndarray, np.ndarray]:
    """Whether the values are floats, their bytes, and how many bytes each row has."""
    shape, values = values.shape, values.ravel()
    if lengths is None:
        lengths = np.full(shape[0], shape[1])
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
    """What stands before the features of an example of that many bytes: field 1."""
    return b"\n" + _varint(size)


def encode_example(values: Mapping[str, Sequence[int] | Sequence[float]]) -> bytes:
    """One serialized `tf.train.Example` from lists."""
    columns = {}
    for name, value in values.items():
        dtype = np.float32 if value and isinstance(value[0], float) else np.int64
        columns[name] = np.array(value, dtype), np.array([len(value)])
    return encode_examples(columns)[0]


@functools.lru_cache(1 << 14)
def _frame(length: int) -> bytes:
    """What stands before a record of that length: the length and its checksum."""
    packed = struct.pack("<Q", length)
    return packed + _masked_crcs([packed]).tobytes()


def _masked_crcs(records: Sequence[bytes]) -> np.ndarray:
    """The checksums of records as TFRecord writes them, uint32 (N,)."""
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
        self.file = open(self.temporary, "wb", buffering=1 << 20)
        return self

    def write(self, *records: bytes) -> None:
        """Appends records."""
        lengths = np.fromiter(map(len, records), np.int64, len(records))
        begins = self.num_bytes + np.cumsum(lengths + 16) - (lengths + 16)
        self.offsets += begins[-self.num_examples % CHUNK :: CHUNK].tolist()
        self.num_examples += len(records)
        self.num_bytes += int(lengths.sum()) + 16 * len(records)
        crcs = _masked_crcs(records).tobytes()
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

    def shard(self) -> "Shard":
        return Shard(
            os.path.basename(self.path), self.num_examples, self.num_bytes, self.digest.hexdigest(), self.offsets
        )


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of a data folder.

    `offsets` says at which byte the records 0, CHUNK, 2 CHUNK, ... begin; folders written by older versions lack it.
    """

    name: str
    examples: int
    bytes: int
    sha256: str
    offsets: list[int] = dataclasses.field(default_factory=list)

    @property
    def num_chunks(self) -> int:
        return -(-self.examples // CHUNK)


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a folder of records holds and how it was made.

    Attributes:
        features: the schema of an example; None stands for a free length.
        shards: the files, in order.
        settings: everything that shaped the records, among it `max_sequence_length`, `vocabulary_sha256`,
            `vocabulary_size`, `masking`, `language`, the segmenter and its version.
        statistics: counts over all records.
    """

    features: Features
    shards: list[Shard]
    settings: dict[str, Any]
    statistics: dict[str, Any]

    @property
    def num_examples(self) -> int:
        return sum(shard.examples for shard in self.shards)

    def write(self, folder: str) -> None:
        """Writes manifest.json; it comes last, so a folder with a manifest is whole."""
        value = {
            "format_version": FORMAT_VERSION,
            "features": {n: {"shape": list(f.shape), "dtype": f.dtype} for n, f in self.features.items()},
            "settings": self.settings,
            "statistics": self.statistics,
            "num_examples": self.num_examples,
            "shards": [dataclasses.asdict(shard) for shard in self.shards],
        }
        write_json(os.path.join(folder, MANIFEST), value)

    @classmethod
    def read(cls, folder: str) -> "Manifest":
        """Reads the manifest of a data folder.

        Raises:
            DataError: the folder or its manifest is missing or damaged.
        """
        path = os.path.join(folder, MANIFEST)
        if not os.path.isdir(folder):
            raise DataError(f"{folder}: no such folder of records. Make one with `xmodels create_pretraining_data`.")
        try:
            with open(path, encoding="utf-8") as file:
                value = json.load(file)
            if value["format_version"] != FORMAT_VERSION:
                raise DataError(
                    f"{path}: format version {value['format_version']}, this program reads {FORMAT_VERSION}. Make the records "
                    "again with this program, or read them with the one that made them."
                )
            features = {n: Feature(tuple(f["shape"]), f["dtype"]) for n, f in value["features"].items()}
            shards = [Shard(**shard) for shard in value["shards"]]
            return cls(features, shards, value["settings"], value["statistics"])
        except FileNotFoundError:
            if os.path.isfile(os.path.join(folder, "data_manifest.json")):
                raise DataError(
                    f"{folder}: is the folder of a run, not of records. Its records are named by --data_dir in "
                    f"{os.path.join(folder, 'flags.txt')}."
                ) from None
            raise DataError(
                f"{path}: missing, so the records are unfinished or not ours. Finish them with the same "
                "`create_pretraining_data` command and --resume. (Records of Google's script: use --input_file.)"
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path}: damaged ({type(error).__name__}: {error}); make the records again.") from None


def damage(folder: str, manifest: Manifest, deep: bool = False, progress=lambda num_bytes: None) -> dict[str, str]:
    """Compares every shard with the manifest: its size, and its SHA-256 when `deep`.

    Returns:
        What is wrong, by the name of the shard, for each that is missing, cut, or changed.
    """
    problems = {}
    for shard in manifest.shards:
        path = os.path.join(folder, shard.name)
        if not os.path.isfile(path):
            problems[shard.name] = f"{path}: missing"
        elif (size := os.path.getsize(path)) != shard.bytes:
            problems[shard.name] = f"{path}: {size:,} bytes, the manifest says {shard.bytes:,} (cut or overwritten)"
        elif deep and file_sha256(path, progress) != shard.sha256:
            problems[shard.name] = f"{path}: contents changed (SHA-256 differs from the manifest)"
    return problems


def verify(folder: str, manifest: Manifest, deep: bool = False, progress=lambda num_bytes: None) -> None:
    """Raises a DataError that lists each shard in which `damage` finds something."""
    problems = list(damage(folder, manifest, deep, progress).values())
    if problems:
        listed = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise DataError(f"{listed}. Copy the shards again, or make them anew with create_pretraining_data --overwrite.")
    if not manifest.num_examples:
        raise DataError(f"{folder}: holds no examples. Make the records again, from files with text.")


def chunk_offsets(path: str, shard: Shard) -> list[int]:
    """Where the chunks of a shard begin; read off the lengths of its records where the manifest does not say.

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


def file_sha256(path: str, progress=lambda num_bytes: None) -> str:
    """The SHA-256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            progress(len(block))
    return digest.hexdigest()


def temporary_name(path: str) -> str:
    """A name beside `path` that no other writer of it takes, be it on another machine that shares the folder."""
    return f"{path}.{uuid.uuid4().hex[:12]}.partial"


@contextlib.contextmanager
def whole_file(path: str, mode: str = "wb") -> Iterator[IO]:
    """A file that appears as `path` when it is whole, and not at all after an error."""
    temporary = temporary_name(path)
    try:
        with open(temporary, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def write_json(path: str, value: Any) -> None:
    """Writes JSON under a temporary name and renames it when whole."""
    with whole_file(path, "w") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")
