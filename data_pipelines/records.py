"""TFRecord shards of `tf.train.Example`, written atomically, and the manifest that readers check.

Writing needs no TensorFlow: its import costs six seconds and 400 MB in every worker, while a record is a length, a
checksum and a few protobuf fields. The tests read the result with TensorFlow.
"""

import dataclasses
import hashlib
import json
import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import google_crc32c

from data_pipelines.errors import DataError
from data_pipelines.features import Feature, Features

MANIFEST = "manifest.json"
FORMAT_VERSION = 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_VARINTS = [_varint(value) for value in range(1 << 16)]  # ids, flags and lengths are nearly always here


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return bytes((number << 3 | 2,)) + _varint(len(payload)) + payload


def _int64_list(values: Sequence[int]) -> bytes:
    table = _VARINTS
    packed = b"".join([table[v] if v < 65536 else _varint(v) for v in values])
    return _field(3, _field(1, packed))


def _float_list(values: Sequence[float]) -> bytes:
    return _field(2, _field(1, struct.pack(f"<{len(values)}f", *values)))


def encode_example(values: Mapping[str, Sequence[int] | Sequence[float]]) -> bytes:
    """A serialized `tf.train.Example`. Lists of floats become float lists, lists of whole numbers int64 lists.

    Whole numbers must not be negative.
    """
    entries = []
    for name in sorted(values):
        value = values[name]
        feature = _float_list(value) if value and isinstance(value[0], float) else _int64_list(value)
        entries.append(_field(1, _field(1, name.encode()) + _field(2, feature)))
    return _field(1, b"".join(entries))


def _masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


class ShardWriter:
    """Writes one TFRecord file under a temporary name, and renames it when it is whole.

    Use as a context manager: an exception leaves nothing under the final name.
    """

    def __init__(self, path: str):
        self.path = path
        self.temporary = f"{path}.partial"
        self.num_examples = 0
        self.num_bytes = 0
        self.digest = hashlib.sha256()

    def __enter__(self):
        self.file = open(self.temporary, "wb", buffering=1 << 20)
        return self

    def write(self, record: bytes) -> None:
        length = struct.pack("<Q", len(record))
        framed = b"".join((length, _masked_crc(length), record, _masked_crc(record)))
        self.file.write(framed)
        self.digest.update(framed)
        self.num_examples += 1
        self.num_bytes += len(framed)

    def __exit__(self, error_type, error, traceback):
        if error_type is not None:
            self.file.close()
            return
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self.temporary, self.path)

    def shard(self) -> "Shard":
        return Shard(os.path.basename(self.path), self.num_examples, self.num_bytes, self.digest.hexdigest())


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file of a data folder."""

    name: str
    examples: int
    bytes: int
    sha256: str


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
                    f"{path}: format version {value['format_version']}, this program reads {FORMAT_VERSION}."
                )
            features = {n: Feature(tuple(f["shape"]), f["dtype"]) for n, f in value["features"].items()}
            shards = [Shard(**shard) for shard in value["shards"]]
            return cls(features, shards, value["settings"], value["statistics"])
        except FileNotFoundError:
            raise DataError(
                f"{path}: missing, so the records are unfinished or not ours. Finish them with the same "
                "`create_pretraining_data` command and --resume. (Records of Google's script: use --input_file.)"
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path}: damaged ({type(error).__name__}: {error}); make the records again.") from None


def verify(folder: str, manifest: Manifest, deep: bool = False, progress=lambda num_bytes: None) -> None:
    """Compares every shard with the manifest: its size, and its SHA-256 when `deep`.

    Raises:
        DataError: lists each shard that is missing, cut, or changed.
    """
    problems = []
    for shard in manifest.shards:
        path = os.path.join(folder, shard.name)
        if not os.path.isfile(path):
            problems.append(f"{path}: missing")
        elif (size := os.path.getsize(path)) != shard.bytes:
            problems.append(f"{path}: {size:,} bytes, the manifest says {shard.bytes:,} (cut or overwritten)")
        elif deep and file_sha256(path, progress) != shard.sha256:
            problems.append(f"{path}: contents changed (SHA-256 differs from the manifest)")
    if problems:
        listed = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise DataError(f"{listed}. Copy the shards again, or make them anew with create_pretraining_data --overwrite.")


def file_sha256(path: str, progress=lambda num_bytes: None) -> str:
    """The SHA-256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            progress(len(block))
    return digest.hexdigest()


def write_json(path: str, value: Any) -> None:
    """Writes JSON under a temporary name and renames it when whole."""
    with open(f"{path}.partial", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.partial", path)
