"""TSV and CSV as raw text: a document for each row, its text in one column."""

import itertools
from collections.abc import Iterator

from data_pipelines.corpora.documents import Document, from_text
from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.json_lines import text_of
from data_pipelines.corpora.lines import LONGEST_RECORD, Lines, Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.corpora.tables import Row, separated_rows

BLOCK = 6  # rows of CSV are dealt out in blocks of 2 ** 6


def read_tsv(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Yields a document for each line of a table without quotes."""
    lines = Lines(piece, "line", reading, monitor, LONGEST_RECORD, "\r\n")
    for row in tsv_rows(lines, Columns(reading.text_field)):
        yield from _document(row, lines, monitor)


def read_csv(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Yields a document for each record. Quoted fields may hold line breaks, so a file is read whole even for a share of it."""
    lines = Lines(piece, "file", reading, monitor, LONGEST_RECORD, "\r\n")
    with_ends = (f"{line}\n" for line in lines)
    columns = Columns(reading.text_field)

    def place(number):  # of the line in which a row begins; the lines of a row are read already
        return f"{piece.path}, line {number}"

    rows = separated_rows(with_ends, ",", columns, False, piece.path, place, LONGEST_RECORD)
    for number, row in enumerate(rows):
        if piece.is_whole or piece.holds(number >> BLOCK):
            yield from _document(row, lines, monitor)


def tsv_rows(lines: Lines, columns: Columns) -> Iterator[Row]:
    """Returns the rows of a piece of a TSV file. The names of the columns stand at the beginning of the file."""
    piece = lines.piece
    header: list[str] = []
    if piece.start and not columns.by_position:
        whole = Lines(piece._replace(start=0, end=piece.size), "line", lines.reading, Monitor(), LONGEST_RECORD, "\r\n")
        header = list(itertools.islice(whole, 1))
    rows = itertools.chain(header, lines)
    return separated_rows(rows, "\t", columns, False, piece.path, lambda number: lines.place, LONGEST_RECORD)


def _document(row: Row, lines: Lines, monitor: Monitor) -> Iterator[Document]:
    text = text_of(row.texts[0], lambda: lines.place, monitor)
    yield from from_text(text, lines.reading, monitor, lines.source, lambda: lines.place)
