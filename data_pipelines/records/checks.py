"""Looks into some records before a network meets them: ids beyond the vocabulary, positions beyond the text."""

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from data_pipelines.errors import DataError
from data_pipelines.records.shards import check_lengths
from data_pipelines.records.source import RecordSource

SAMPLE = 256  # records of each of the first shards
SHARDS = 16


def check_contents(source: RecordSource, vocabulary_size: int) -> int:
    """Looks at the first records of the first shards; returns how many.

    Raises:
        DataError: names the file and the record, what is wrong with it, and what to do.
    """
    seen = 0
    for shard in range(min(SHARDS, len(source.paths))):
        try:
            records = _first_of(source, shard)
            if records:
                values = {name: np.asarray(value) for name, value in source.parse(tf.constant(records)).items()}
                _check(values, source, shard, vocabulary_size)
        except tf.errors.DataLossError:
            raise DataError(
                f"{source.paths[shard]}: a record among the first {SAMPLE} is damaged. Copy the file again, or make it anew."
            ) from None
        # The latter where TensorFlow quotes bytes.
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
            raise DataError(
                f"{source.paths[shard]}: its records are not those that the others promise ({first_line(error)}). Make all "
                "files with the same settings."
            ) from None
        seen += len(records)
    return seen


def count_all_ids(source: RecordSource, vocabulary_size: int) -> np.ndarray:
    """Returns how often each id stands in all records, int64 (V,). Padding is counted as the id 0."""
    for path in source.paths:
        check_lengths(path)
    return _count(source, tf.data.TFRecordDataset(source.paths).batch(1024), vocabulary_size)


def count_ids(source: RecordSource, vocabulary_size: int) -> np.ndarray:
    """Returns how often each id stands in the first records of the first shards, int64 (V,). Padding is counted as the id 0."""
    firsts = (_first_of(source, shard) for shard in range(min(SHARDS, len(source.paths))))
    return _count(source, map(tf.constant, filter(None, firsts)), vocabulary_size)


def _count(source: RecordSource, batches: Iterable[tf.Tensor], vocabulary_size: int) -> np.ndarray:
    counts = np.zeros(vocabulary_size, np.int64)
    for parsed in map(source.parse, batches):
        for name in source.format.ids:
            counts += np.bincount(np.asarray(parsed[name]).ravel(), minlength=vocabulary_size)
    return counts


def _first_of(source: RecordSource, shard: int) -> list[bytes]:
    check_lengths(source.paths[shard], SAMPLE)
    return list(itertools.islice(tf.data.TFRecordDataset(source.paths[shard]).as_numpy_iterator(), SAMPLE))


def _check(values: Mapping[str, np.ndarray], source: RecordSource, shard: int, vocabulary_size: int) -> None:
    for wrong, what in _faults(values, source, vocabulary_size):
        if wrong.any():
            record = int(np.flatnonzero(wrong)[0])
            raise DataError(
                f"{source.paths[shard]}, record {record}: {what(record)}. Make the records again with "
                "`xmodels create_pretraining_data` and the vocabulary and lengths of this run."
            )


def _faults(values: Mapping[str, np.ndarray], source: RecordSource, vocabulary_size: int):
    """Yields which records are wrong, and what to say of one: by the ids that the format has, then by what it knows itself."""
    for name in source.format.ids:
        ids = values[name].reshape(len(values[name]), -1)
        yield _beyond(ids.max(axis=1, initial=0), vocabulary_size)
        yield _negative(ids)
    yield from source.format.faults(values, source.manifest.settings)


def _beyond(ids: np.ndarray, vocabulary_size: int):
    what = f"but the vocabulary has {vocabulary_size} pieces, so the records were made with another"
    return ids >= vocabulary_size, lambda n: f"holds the id {ids[n]}, {what}"


def _negative(ids: np.ndarray):
    least = ids.min(axis=1, initial=0)
    return least < 0, lambda n: f"holds the id {least[n]}, but ids begin with 0"


def first_line(error: tf.errors.OpError | UnicodeDecodeError) -> str:
    """Returns what TensorFlow says of an error, without the name of the function of its graph."""
    if isinstance(error, UnicodeDecodeError):
        return "its bytes are no example"
    return error.message.splitlines()[0].removeprefix("{{").rpartition("}} ")[2][:160]
