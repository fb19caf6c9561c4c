"""Parquet files, read in small batches of rows; needs pyarrow, the extra [parquet]."""

from collections.abc import Iterator

from data_pipelines.corpora.documents import Document, from_text
from data_pipelines.corpora.json_lines import field, text_of
from data_pipelines.corpora.lines import Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.corpora.tables import TEXT_NAMES
from data_pipelines.errors import DataError, UsageError

_BATCH = 256  # rows held at a time


def read(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """A document for each row of the piece, which is a range of rows. Row groups outside of it are not read.

    Raises:
        UsageError: pyarrow is not installed.
        DataError: the file is damaged, or has no column of text of that name.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(f"{piece.path}: Parquet needs pyarrow. Install it: pip install 'xmodels[parquet]'.") from None
    try:
        with pyarrow.parquet.ParquetFile(piece.path, pre_buffer=False, buffer_size=1 << 20) as file:
            yield from _rows(file, piece, reading, monitor)
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"{piece.path}: no whole Parquet file ({str(error).splitlines()[0]}).") from None
    monitor.progress(piece.end - piece.start)


def _rows(file, piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    names = file.schema_arrow.names
    column = _column(reading, names)
    field(dict.fromkeys(names), column, TEXT_NAMES, lambda: piece.path)  # is it there?
    total = file.metadata.num_rows
    first, last = total * piece.start // piece.size, total * piece.end // piece.size
    row = 0
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if row + size <= first or row >= last:
            row += size
            continue
        for batch in file.iter_batches(_BATCH, row_groups=[group], columns=[column], use_threads=False):
            for record in batch.to_pylist():
                if first <= row < last:
                    place = f"{piece.path}, row {row + 1}"
                    value = field(record, reading.text_field, TEXT_NAMES, lambda place=place: place)
                    yield from from_text(text_of(value, lambda place=place: place, monitor), reading.split, place)
                row += 1


def _column(reading: Reading, names: list[str]) -> str | None:
    """The column to load: that of the field, or the one that holds the field inside."""
    name = reading.text_field
    if name is None:
        return next((usual for usual in TEXT_NAMES if usual in names), None)
    return name if name in names else name.split(".")[0]
