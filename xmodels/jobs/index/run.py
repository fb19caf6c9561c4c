"""Makes an index of vectors."""

import itertools
import os
from collections.abc import Iterator

from data_pipelines.errors import DataError, UsageError
from xmodels.export.exporter import new_folder
from xmodels.jobs.index.options import Options
from xmodels.jobs.predict.texts_of_files import texts_of
from xmodels.retrieval import index, vectors


def make_index(options: Options) -> str:
    """Makes an index; returns its folder."""
    folder = os.path.realpath(options.output_dir)
    check_free(folder, options.overwrite)
    found = vectors.read(options.vectors_file)
    if found.has_texts and options.input_file:
        raise UsageError(f"--input_file: {options.vectors_file} holds its texts. Leave it out.")
    parts = found.parts()
    if options.input_file:
        parts = with_texts(parts, options.input_file, options.text_column, found.description)
    has_texts = found.has_texts or bool(options.input_file)
    with new_folder(folder) as path:
        made = index.build(
            path, found.description.encoder, options.kind, parts, found.description.width, has_texts, options.neighbours
        )
    print(
        f"{options.output_dir}: an index of {made.count:,} vectors of {made.width} numbers, {made.kind}, "
        f"{'with' if has_texts else 'without'} texts, of the network {made.encoder.name}."
    )
    return options.output_dir


def check_free(folder: str, overwrite: bool) -> None:
    """Raises a UsageError unless the folder is new or empty, or holds an index that may be replaced."""
    if not os.path.lexists(folder) or (os.path.isdir(folder) and not os.listdir(folder)):
        return
    if not os.path.isdir(folder) or not index.is_index(folder):
        raise UsageError(f"--output_dir={folder}: exists and is no index, or holds more than one. Choose another.")
    if not overwrite:
        raise UsageError(f"--output_dir={folder}: exists. Choose another name or add --overwrite.")


def with_texts(parts, path: str, column: str | None, description: vectors.Description) -> Iterator[tuple]:
    """Yields the parts with the texts of a file, which must be those that were encoded.

    Raises:
        DataError: they are not.
    """
    texts, digest = texts_of(path, column), vectors.TextDigest()
    wrong = DataError(
        f"{path}: holds not the texts of which the vectors were made, or not in their order. Name the file that `xmodels "
        "encode` read, and its --text_column."
    )
    for _, rows in parts:
        here = list(itertools.islice(texts, len(rows)))
        if len(here) < len(rows):
            raise wrong
        for text in here:
            digest.add(text)
        yield here, rows
    if next(texts, None) is not None or digest.hexdigest() != description.texts_sha256:
        raise wrong
