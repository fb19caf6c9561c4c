"""Parallel text: a document of two "sentences", a text and its translation; from two files or two columns."""

import itertools
from collections.abc import Iterator

from data_pipelines.corpora.documents import Document
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.lines import ENDLESS, Lines, Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.corpora.separated import BLOCK, tsv_rows
from data_pipelines.errors import DataError


def read(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Yields the pairs of which neither side is empty.

    Raises:
        DataError: the two files have different numbers of lines.
    """
    pairs = _columns(piece, reading, monitor) if piece.target is None else _files(piece, reading, monitor)
    for text, translation, source in pairs:
        if text and translation:
            yield Document([text, translation], source)
        else:
            monitor.counts["empty_documents"] += 1


def _columns(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[tuple[str, str, str]]:
    """Yields pairs from TSV: by default the first two columns of a table without a header line."""
    columns = Columns(reading.text_field or "0", reading.target_field or "1")
    lines = Lines(piece, "line", reading, monitor, strip="\r\n")
    try:
        for row in tsv_rows(lines, columns):
            yield row.texts[0].strip(), row.texts[1].strip(), lines.source
    except DataError as error:
        if ": 1 column(s)" not in str(error):
            raise
        raise DataError(f"{error} Translations in a file of their own are named by --target_file.") from None


def _files(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[tuple[str, str, str]]:
    """Yields pairs from two files that are read side by side, whole even for a share: only counting tells which lines belong."""
    other = Piece(piece.target, piece.format, 0, ENDLESS, ENDLESS)
    lines = Lines(piece, "file", reading, monitor, dropped="")
    translations = Lines(other, "file", reading, Monitor(counts=monitor.counts), dropped="")
    number = 0
    for number, (text, translation) in enumerate(itertools.zip_longest(lines, translations)):
        if text is None or translation is None:
            longer, shorter = (piece.target, piece.path) if text is None else (piece.path, piece.target)
            raise DataError(
                f"{longer} has more lines than {shorter}, which ends after {number:,}; line by line they must belong "
                "together."
            )
        if piece.is_whole or piece.holds(number >> BLOCK):
            yield text, translation, lines.source
