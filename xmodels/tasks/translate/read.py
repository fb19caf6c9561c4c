"""Sources and references: two files of lines, or a table of two columns; and translations, a line each."""

import os
from collections.abc import Sequence

from data_pipelines.corpora.corpus import open_corpus, read_documents
from data_pipelines.corpora.encodings import assumed
from data_pipelines.corpora.lines import ENDLESS, Lines, Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError, UsageError
from data_pipelines.files import whole_file


def read_pairs(test_file: str, target_file: str | None, text_column: str | None, target_column: str | None):
    """Sources and references, read as `create_pretraining_data` reads parallel text; says how many pairs lack a side.

    Raises:
        DataError: the files differ in their numbers of lines, or hold no pair.
    """
    if target_file and (text_column or target_column):
        raise UsageError(
            "--target_file goes with two files of lines; --text_column and --target_column with one table."
        )
    monitor = Monitor()
    try:
        corpus = open_corpus(
            test_file, "en", "parallel", Reading("en", text_column, target_column, encoding=assumed()), target_file
        )
        pairs = [document.sentences for document in read_documents(corpus.whole(), monitor)]
    except (DataError, UsageError) as error:
        raise type(error)(str(error).replace("--input_file", "--test_file")) from None
    if not pairs:
        raise DataError(f"--test_file={test_file}: holds no pair of a text and its translation.")
    if empty := monitor.counts["empty_documents"]:
        print(f"Note: {empty:,} pair(s) with an empty side are left out.")
    return [source for source, _ in pairs], [reference for _, reference in pairs]


def lines_of(path: str) -> list[str]:
    """The lines of a text file, also compressed. Raises a DataError where there is none, or one is not UTF-8."""
    if not os.path.isfile(path):
        raise DataError(f"--input_file={path}: no such file.")
    lines = list(Lines(Piece(path, "documents", 0, ENDLESS, ENDLESS), "file", Reading(encoding=assumed()), Monitor()))
    if not any(lines):
        raise DataError(f"--input_file={path}: holds no text.")
    return lines


def write_lines(path: str, lines: Sequence[str]) -> None:
    """Writes a text a line; the file is there whole or not at all."""
    with whole_file(path, "w") as file:
        file.writelines(f"{line}\n" for line in lines)
