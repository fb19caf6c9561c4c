"""Opens files as streams: compressed ones as the ending of the name tells, and those in other encodings as UTF-8."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from backports import zstd

from data_pipelines.corpora.encodings import UTF_8, AsUtf8
from data_pipelines.errors import DataError

_OPENERS = {".gz": gzip.open, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile, ".zst": zstd.ZstdFile}
_MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError, gzip.BadGzipFile)
SUFFIXES = tuple(_OPENERS)


def stem(path: str) -> str:
    """Returns the name without the ending of the compression."""
    return next((path[: -len(suffix)] for suffix in SUFFIXES if path.lower().endswith(suffix)), path)


def kind_of(path: str) -> str:
    """Returns the ending of a name that tells how to read it, such as `.json`; without that of a compression."""
    return os.path.splitext(stem(path))[1].lower()


def is_compressed(path: str) -> bool:
    return path.lower().endswith(SUFFIXES)


@contextlib.contextmanager
def open_stream(path: str, encoding: str = UTF_8) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Opens a file. Yields (its contents, the file itself, whose position shows how far the reading has come).

    Args:
        encoding: of a text file without a byte-order mark. Those in another than UTF-8 are read as UTF-8.

    Raises:
        DataError: the file is cut or damaged, or its compression is not the one that its name tells.
    """
    suffix = next((s for s in SUFFIXES if path.lower().endswith(s)), "")
    with open(path, "rb") as file:
        head = file.read(6)
        file.seek(0)
        found = next((s for magic, s in _MAGIC.items() if head.startswith(magic)), "")
        if head and found != suffix:
            holds = f"{found} compressed data" if found else "no compressed data"
            named = f"its name ends in {suffix}" if suffix else f"its name does not end in {found}"
            raise DataError(f"{path}: holds {holds}, but {named}. Rename the file after what it holds.")
        if not head or not suffix:
            yield _as_utf8(file, encoding), file
            return
        try:
            with _OPENERS[suffix](file) as unpacked:
                yield _as_utf8(io.BufferedReader(unpacked, 1 << 18), encoding), file
        except _BROKEN as error:
            raise DataError(
                f"{path}: the compressed data is cut or damaged ({error}). Fetch the file again; `{_check(suffix)}` "
                "checks it."
            ) from None
        except OSError as error:
            if error.errno is not None:  # the disk, not the data
                raise
            raise DataError(f"{path}: the compressed data is damaged ({error}). Fetch the file again.") from None


def _as_utf8(stream: BinaryIO, encoding: str) -> BinaryIO:
    return stream if encoding == UTF_8 else io.BufferedReader(AsUtf8(stream, encoding), 1 << 18)


def _check(suffix: str) -> str:
    return {".gz": "gzip -t", ".bz2": "bzip2 -t", ".xz": "xz -t", ".zst": "zstd -t"}[suffix]


def beginning(path: str, num_bytes: int, encoding: str = UTF_8) -> bytes:
    """Returns the first bytes of the contents."""
    with open_stream(path, encoding) as (stream, _):
        return stream.read(num_bytes)
