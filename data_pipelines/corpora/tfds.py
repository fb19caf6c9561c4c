"""Data sets that tensorflow-datasets has prepared: `tfds:NAME`, `tfds:FOLDER`, each with `@SPLIT` (default train).

Nothing is downloaded here. tensorflow-datasets is imported inside the functions only: it brings TensorFlow along, which
workers for other formats do without.
"""

import os
import re
from collections.abc import Iterator

from data_pipelines.corpora.documents import Document, from_text
from data_pipelines.corpora.headers import TEXT_NAMES
from data_pipelines.corpora.json_lines import field, text_of
from data_pipelines.corpora.lines import Piece
from data_pipelines.corpora.reading import Monitor, Reading
from data_pipelines.errors import DataError
from data_pipelines.quiet import quiet_start

PREFIX = "tfds:"
_NAME = re.compile(r"[A-Za-z]\w*(/[\w.+-]+)?(:[\d.*]+)?")


def size(name: str) -> int:
    """Returns bytes of a split, by which the corpus is cut and progress is counted; examples, where the bytes are not known.

    Raises:
        DataError: no such data set, or it is not prepared, or has no such split.
    """
    builder, split = _open(name)
    info = builder.info.splits[split]
    return info.num_bytes or info.num_examples


def read(piece: Piece, reading: Reading, monitor: Monitor) -> Iterator[Document]:
    """Yields a document for each example of the piece, which is a range of examples in the order of the files.

    Raises:
        DataError: no field of text of that name.
    """
    builder, split = _open(piece.path)
    total = builder.info.splits[split].num_examples
    first, last = total * piece.start // piece.size, total * piece.end // piece.size
    usual = TEXT_NAMES
    names = list(builder.info.features) if hasattr(builder.info.features, "keys") else []
    texts = [name for name in names if type(builder.info.features[name]).__name__ == "Text"]
    if len(texts) == 1 and texts[0] not in usual:
        usual = (*usual, texts[0])  # the only text there is
    if first < last:
        for number, example in enumerate(_examples(builder, f"{split}[{first}:{last}]"), first):
            place = f"{piece.path}, example {number}"
            value = field(_plain(example), reading.text_field, usual, lambda place=place: place)
            yield from from_text(text_of(value, lambda place=place: place, monitor), reading, monitor, place)
    monitor.progress(piece.end - piece.start)


def _open(name: str):
    """Returns (builder, split) of `tfds:NAME@SPLIT` or `tfds:FOLDER@SPLIT`."""
    with quiet_start():
        import tensorflow_datasets as tfds

    where, _, split = name.removeprefix(PREFIX).partition("@")
    split = split or "train"
    if os.path.isdir(where):
        folder = where
    elif not _NAME.fullmatch(where):
        raise DataError(f"{name}: no such folder, and no name of a data set such as tfds:imdb_reviews/plain_text.")
    else:
        try:
            folder = str(tfds.builder(where).data_dir)
        except (tfds.core.DatasetNotFoundError, ValueError) as error:
            raise DataError(f"{name}: {str(error).strip().splitlines()[0]}") from None
    if not os.path.isfile(os.path.join(folder, "dataset_info.json")):
        raise DataError(
            f"{name}: {folder} holds no prepared data set (no dataset_info.json). Prepare it first, for example with "
            "`tfds build NAME`, or name the folder of its version, such as data/imdb_reviews/plain_text/1.0.0."
        )
    builder = tfds.builder_from_directory(folder)
    if split not in builder.info.splits:
        raise DataError(f"{name}: no split {split!r}. It has: {', '.join(builder.info.splits)}. Write tfds:…@SPLIT.")
    return builder, split


def _examples(builder, split: str) -> Iterator[dict]:
    """Yields the examples of a range in a fixed order, with little held in memory."""
    with quiet_start():
        import tensorflow as tf
        import tensorflow_datasets as tfds

    tf.config.set_visible_devices([], "GPU")  # reading must not take its memory
    order = tfds.ReadConfig(
        interleave_cycle_length=1, num_parallel_calls_for_decode=1, try_autocache=False, skip_prefetch=True
    )
    yield from tfds.as_numpy(builder.as_dataset(split=split, shuffle_files=False, read_config=order))


def _plain(value):
    """Returns text for bytes, down through the fields."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return {name: _plain(inner) for name, inner in value.items()} if isinstance(value, dict) else value
