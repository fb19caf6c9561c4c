"""Files of vectors: `.npy` with a JSON beside it that says which network made them, or Parquet, which holds texts and that too."""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from data_pipelines import strict_json
from data_pipelines.corpora.parquet import import_pyarrow
from data_pipelines.errors import DataError, UsageError
from data_pipelines.files import file_sha256, whole_file, write_json
from data_pipelines.schema import Count, Location, Sha256, convert, whole
from xmodels.retrieval.encoder import Encoder

NPY, PARQUET, BESIDE = ".npy", ".parquet", ".json"
KEY = b"xmodels"  # of the metadata of Parquet
CHUNK = 8192  # vectors that are read at once
MOST_UNFOLDED, LEAST_FILE = (
    100,
    1 << 20,
)  # times the bytes of a file, of at least so many: what texts and vectors may unfold to
Width = whole(1, 1 << 20)


@dataclasses.dataclass(frozen=True)
class Description:
    """What stands beside vectors.

    Attributes:
        encoder: the network.
        width: numbers of a vector.
        count: vectors; of Parquet the file itself knows.
        texts_sha256: of the texts, in their order.
        vectors_sha256: of the file.
    """

    encoder: Encoder
    width: Width
    count: Count | None = None
    texts_sha256: Sha256 | None = None
    vectors_sha256: Sha256 | None = None


class TextDigest:
    """The SHA-256 of texts in their order."""

    def __init__(self):
        self._found = hashlib.sha256()

    def add(self, text: str) -> None:
        encoded = text.encode()
        self._found.update(b"%d " % len(encoded) + encoded)

    def hexdigest(self) -> str:
        return self._found.hexdigest()


def check_kind(path: str, flag: str) -> None:
    """Raises a UsageError unless the name ends as files of vectors do, and its library is there."""
    if not path.endswith((NPY, PARQUET)):
        raise UsageError(f"--{flag}={path}: expected a name that ends in {NPY} or {PARQUET}.")
    if path.endswith(PARQUET):
        import_pyarrow(path)


def write(path: str, encoder: Encoder, parts: Iterable[tuple[Sequence[str], np.ndarray]]) -> int:
    """Writes vectors as they come; the file appears when it is whole. Returns how many.

    Args:
        parts: texts and their vectors, float32 (N, D).
    """
    return (_write_parquet if path.endswith(PARQUET) else _write_npy)(path, encoder, parts)


def _write_npy(path: str, encoder: Encoder, parts) -> int:
    count, width, digest = 0, 0, TextDigest()
    with whole_file(path) as file:
        for texts, vectors in parts:
            if not width:
                width = vectors.shape[1]
                start = _header(file, 0, width)
            for text in texts:
                digest.add(text)
            file.write(np.ascontiguousarray(vectors, "<f4").tobytes())
            count += len(texts)
        file.seek(0)
        if _header(file, count, width) != start:  # numpy leaves room for a first axis that grows
            raise RuntimeError("The header of a .npy file changed its length. Please report this.")
    made = Description(encoder, width, count, digest.hexdigest(), file_sha256(path))
    write_json(path + BESIDE, dataclasses.asdict(made))
    return count


def _header(file, count: int, width: int) -> int:
    """Writes the header of `count` vectors; returns where they begin."""
    described = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
    np.lib.format.write_array_header_1_0(file, described)
    return file.tell()


def _write_parquet(path: str, encoder: Encoder, parts) -> int:
    pyarrow = import_pyarrow(path)
    count, writer = 0, None
    with whole_file(path) as file, contextlib.ExitStack() as opened:
        for texts, vectors in parts:
            if writer is None:
                described = json.dumps(dataclasses.asdict(Description(encoder, vectors.shape[1])), ensure_ascii=False)
                fields = [("text", pyarrow.string()), ("vector", pyarrow.list_(pyarrow.float32(), vectors.shape[1]))]
                schema = pyarrow.schema(fields, metadata={KEY: described})
                writer = opened.enter_context(pyarrow.parquet.ParquetWriter(file, schema, write_page_checksum=True))
            flat = pyarrow.array(np.ascontiguousarray(vectors, np.float32).ravel())
            column = pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
            writer.write_table(pyarrow.Table.from_arrays([pyarrow.array(list(texts)), column], schema=schema))
            count += len(texts)
        opened.close()  # writes the end of the file
    return count


@dataclasses.dataclass(frozen=True)
class Vectors:
    """A file of vectors.

    Attributes:
        has_texts: whether the file holds the texts.
    """

    path: str
    description: Description
    has_texts: bool

    def parts(self) -> Iterator[tuple[list[str] | None, np.ndarray]]:
        """Yields texts, None where the file holds none, and vectors float32 (N, D), some at a time."""
        if not self.has_texts:
            vectors = _open_array(self.path)
            for first in range(0, len(vectors), CHUNK):
                part = np.asarray(vectors[first : first + CHUNK])
                if not np.isfinite(part).all():
                    raise DataError(f"{self.path}: a row of {first} to {first + len(part) - 1} holds NaN or infinity.")
                yield None, part
            return
        yield from self._rows(import_pyarrow(self.path))

    def _rows(self, pyarrow) -> Iterator[tuple[list[str], np.ndarray]]:
        width, count = self.description.width, 0
        try:
            with pyarrow.parquet.ParquetFile(self.path, page_checksum_verification=True) as file:
                for batch in file.iter_batches(CHUNK, columns=["text", "vector"]):
                    texts, flat = batch.column(0).to_pylist(), np.asarray(batch.column(1).flatten(), np.float32)
                    if None in texts or len(flat) != len(texts) * width or not np.isfinite(flat).all():
                        raise DataError(f"{self.path}: a row lacks its text or its vector, or holds no finite numbers.")
                    count += len(texts)
                    yield texts, flat.reshape(-1, width)
            if count != self.description.count:
                raise DataError(f"{self.path}: holds {count:,} rows, but says {self.description.count:,}.")
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
            raise DataError(f"{self.path}: damaged ({str(error)[:200]}). Encode the texts again.") from None


def read(path: str) -> Vectors:
    """Opens a file of vectors.

    Raises:
        DataError: it is missing, damaged, or nothing says which network made it.
        UsageError: its ending is unknown.
    """
    check_kind(path, "vectors_file")
    if not os.path.isfile(path):
        found = "is a folder, a pipe or a device, not a file" if os.path.exists(path) else "no such file"
        raise DataError(f"{path}: {found}.")
    return _read_parquet(path) if path.endswith(PARQUET) else _read_npy(path)


def _read_npy(path: str) -> Vectors:
    beside = path + BESIDE
    if not os.path.isfile(beside):
        raise DataError(
            f"{beside}: is not there, so nothing says which network made the vectors of {path}. `xmodels encode` writes both."
        )
    description = _parse_description(strict_json_of(beside), beside)
    if file_sha256(path) != description.vectors_sha256:
        raise DataError(
            f"{path}: is not the file that {beside} describes (its SHA-256 differs). Copy both, or encode the texts again."
        )
    shape = _open_array(path).shape
    if shape != (description.count, description.width):
        raise DataError(f"{path}: has the shape {shape}, {beside} says ({description.count}, {description.width}).")
    return Vectors(path, description, False)


def _open_array(path: str) -> np.ndarray:
    """Returns the float32 array (N, D) of a .npy file, of which only what is looked at is read.

    Raises:
        DataError: the file is no such array, or shorter than its header says.
    """
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy parses the header as Python, and raises what that raises
        raise DataError(f"{path}: not a readable .npy file ({str(error)[:200]}). Encode the texts again.") from None
    if not isinstance(found, np.ndarray) or found.dtype != np.dtype("<f4") or found.ndim != 2:
        what = f"{found.dtype} of {found.ndim} axes" if isinstance(found, np.ndarray) else "an archive"
        raise DataError(f"{path}: holds {what}, expected float32 of 2 axes. Encode the texts again.")
    return found


def _read_parquet(path: str) -> Vectors:
    pyarrow = import_pyarrow(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
            groups = [file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups)]
    except (pyarrow.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{path}: not readable as Parquet ({error}).") from None
    stored = (schema.metadata or {}).get(KEY)
    if stored is None or schema.names != ["text", "vector"]:
        raise DataError(f"{path}: was not written by `xmodels encode`, so nothing says which network made it.")
    try:
        description = _parse_description(strict_json.loads(stored.decode()), path)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: its metadata are no JSON ({error}).") from None
    if schema.field("vector").type != pyarrow.list_(pyarrow.float32(), description.width):
        raise DataError(f"{path}: `vector` is {schema.field('vector').type}, expected {description.width} float32.")
    if schema.field("text").type != pyarrow.string():
        raise DataError(f"{path}: `text` is {schema.field('text').type}, expected string.")
    if (unfolded := sum(groups)) > MOST_UNFOLDED * max(os.path.getsize(path), LEAST_FILE):
        raise DataError(f"{path}: {os.path.getsize(path):,} bytes that unfold to {unfolded:,}. Encode the texts again.")
    return Vectors(path, dataclasses.replace(description, count=count), True)


def _parse_description(value: Any, where: str) -> Description:
    return convert(value, Description, Location(where))


def strict_json_of(path: str) -> Any:
    """Returns a JSON file, or a DataError that names it."""
    try:
        return strict_json.read(path)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: not valid JSON ({error}).") from None
