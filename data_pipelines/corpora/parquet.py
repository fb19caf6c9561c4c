"""Parquet files, read in small batches of rows; needs pyarrow, the extra [parquet]."""

import contextlib
from collections.abc import Iterator
from typing import Any

from data_pipelines.corpora.documents import Document, from_text
from data_pipelines.corpora.headers import TEXT_NAMES
from data_pipelines.corpora.json_lines import field, text_of
from data_pipelines.corpora.lines import Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError, UsageError

_BATCH = 256  # rows held at a time
_HELD = 16_000_000  # bytes of text held at a time, and of the longest text
_UNFOLDS = 1000  # times a column chunk may grow when it is unpacked, if it grows beyond what is held


def read(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Yields a document for each row of the piece, which is a range of rows. Row groups outside of it are not read.

    Raises:
        UsageError: pyarrow is not installed.
        DataError: the file is damaged, or has no column of text of that name.
    """
    with open_parquet(piece.path) as file:
        leaf, column = _column(file.schema, reading)
    # A text that many rows share stays one text in memory.
    with open_parquet(piece.path, read_dictionary=[leaf] if leaf else None) as file:
        yield from _rows(file, piece, leaf, column, reading, monitor)
    monitor.progress(piece.end - piece.start)


def import_pyarrow(path: str) -> Any:
    """Returns the module with which a file is read or written. Raises a UsageError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(f"{path}: Parquet needs pyarrow. Install it: pip install 'xmodels[parquet]'.") from None
    return pyarrow


@contextlib.contextmanager
def open_parquet(path: str, **options) -> Iterator[Any]:
    """Yields a file, of which a little is in memory at a time.

    Args:
        options: of `pyarrow.parquet.ParquetFile`.

    Raises:
        UsageError: pyarrow is not installed.
        DataError: the file is damaged.
    """
    pyarrow = import_pyarrow(path)
    try:
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20, **options) as file:
            yield file
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"{path}: no whole Parquet file ({str(error).splitlines()[0]}).") from None


def _rows(file, piece: Piece, leaf: str | None, column: str | None, reading: Reading, monitor: Monitor):
    names = file.schema_arrow.names
    field(dict.fromkeys(names), column, TEXT_NAMES, lambda: piece.path)  # is it there?
    total = file.metadata.num_rows
    first, last = total * piece.start // piece.size, total * piece.end // piece.size
    row = 0
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if row + size <= first or row >= last:
            row += size
            continue
        together = _rows_together(file.metadata.row_group(group), leaf, f"{piece.path}, rows {row + 1} to {row + size}")
        for batch in file.iter_batches(together, row_groups=[group], columns=[column], use_threads=False):
            for index in range(batch.num_rows):
                row += 1
                if first < row <= last:
                    place = f"{piece.path}, row {row}"
                    record = _record(batch.slice(index, 1), place, reading, monitor)
                    if record is None:
                        continue
                    value = field(record, reading.text_field, TEXT_NAMES, lambda place=place: place)
                    text = text_of(value, lambda place=place: place, monitor)
                    if len(text) > _HELD:
                        raise DataError(
                            f"{place}: a text of {len(text):,} characters, more than {_HELD:,}. Cut it into several."
                        )
                    yield from from_text(text, reading, monitor, place)


def _record(row, place: str, reading: Reading, monitor: Monitor) -> dict | None:
    """Returns a row as a dictionary; None where it is not UTF-8 and `on_bad_text` drops it.

    Raises:
        DataError: it is not UTF-8, although the file says so.
    """
    try:
        return row.to_pylist()[0]
    except UnicodeDecodeError as error:
        if reading.on_bad_text != "drop":
            raise DataError(
                f"{place}: not valid UTF-8 (byte 0x{error.object[error.start]:02x}). Write the file anew, or go on with "
                "--on_bad_text=drop, which leaves such rows out."
            ) from None
    monitor.counts["bad_text_dropped"] += 1
    return None


def _rows_together(group, leaf: str | None, place: str) -> int:
    """Returns how many rows of a group are held at a time.

    Raises:
        DataError: its texts are too long on the average, or a few bytes unfold to very many.
    """
    chunks = (group.column(index) for index in range(group.num_columns))
    chunk = next((chunk for chunk in chunks if chunk.path_in_schema == leaf), None)
    if chunk is None:
        return _BATCH
    unpacked, packed = chunk.total_uncompressed_size, max(1, chunk.total_compressed_size)
    mean = unpacked // max(1, group.num_rows)
    if mean > _HELD or unpacked > max(_HELD * 4, _UNFOLDS * packed):
        raise DataError(
            f"{place}: {packed:,} bytes unfold to {unpacked:,}, {mean:,} a row. Text does not; is the file damaged or made to "
            f"fill the memory? Take it out, or write its texts anew with at most {_HELD:,} characters each."
        )
    return max(1, min(_BATCH, _HELD // max(1, mean)))


def _column(schema, reading: Reading) -> tuple[str | None, str | None]:
    """Returns the leaf that holds the text, and the column to load: its own, or the one that it lies in."""
    names = schema.to_arrow_schema().names
    name = reading.text_field
    if name is None:
        name = next((usual for usual in TEXT_NAMES if usual in names), None)
    leaves = {schema.column(index).path for index in range(len(schema))}
    return (name if name in leaves else None), (name if name is None or name in names else name.split(".")[0])
