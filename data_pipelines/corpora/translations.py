"""Reads text and its translation: two files whose lines belong together, or two columns of a table."""

import dataclasses
import itertools
from collections.abc import Iterator

from data_pipelines.corpora.headers import Columns
from data_pipelines.corpora.tables import BadRow, read_table
from data_pipelines.corpora.text_files import open_text
from data_pipelines.errors import DataError


def read_translations(
    path: str, columns: Columns, target: str | None = None, bad_rows: list[BadRow] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Yields (source, translation, place) of each line.

    Args:
        target: a second file, line by line the translation of the first. None: both are columns of the table `path`.
        bad_rows: of a table, as in `read_table`.

    Raises:
        DataError: the files differ in their number of lines, or the table has no second column.
    """
    if target is None:
        for row in read_table(
            path, dataclasses.replace(columns, needs_pair=True), with_labels=False, bad_rows=bad_rows
        ):
            if len(row.texts) < 2:
                raise DataError(
                    f"{path}: has no column of translations. Name it with --text_pair_column. (`create_finetuning_data` also takes a "
                    "second file of lines, --target_file.)"
                )
            yield *row.texts, f"{path}, line {row.line}"
        return
    with open_text(path) as first, open_text(target) as second:
        for number, (a, b) in enumerate(itertools.zip_longest(first, second), 1):
            if a is None or b is None:
                short, long = (path, target) if a is None else (target, path)
                raise DataError(
                    f"{short}: ends after line {number - 1}, while {long} goes on. Line by line one must be the "
                    "translation of the other."
                )
            yield a.strip(), b.strip(), f"{path}, line {number}"
