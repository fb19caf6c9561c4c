"""Reads records that Google's `create_pretraining_data.py` wrote."""

import os

import tensorflow as tf
from google.protobuf.message import DecodeError

from data_pipelines.errors import DataError
from data_pipelines.features import Features, check
from data_pipelines.records.formats import static_features
from data_pipelines.records.manifest import Manifest, RecordSettings
from data_pipelines.records.shards import Shard, check_lengths
from data_pipelines.records.source import RecordSource

LOOKED_AT = 4096  # bytes at the beginning of a file that tell text from records


def classic_source(paths: list[str], vocabulary_size: int) -> RecordSource:
    """Records written by Google's `create_pretraining_data.py`: no manifest, so the first record tells the lengths.

    Raises:
        DataError: a file cannot be read, lacks one of the seven features, or has ids beyond the vocabulary.
    """
    shards = []
    features: Features = {}
    for path in paths:
        if not os.path.isfile(path):
            raise DataError(f"{path}: no such file of records.")
        _check_text(path)
        check_lengths(path)
        try:
            records = 0
            for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
                if not records:
                    found = _features_of(record, path, vocabulary_size)
                    features = features or found
                    check(found, features, path)
                records += 1
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:  # the latter of a length below 0
            raise DataError(f"{path}: damaged or cut TFRecord file ({error.message.splitlines()[0]}).") from None
        shards.append(Shard(path, records, os.path.getsize(path), ""))
    if not features:
        raise DataError(f"{', '.join(paths)}: no records.")
    length = features["input_ids"].shape[0]
    settings = RecordSettings(masking="static", max_sequence_length=length, vocabulary_size=vocabulary_size)
    return RecordSource("", Manifest(features, shards, settings, {}))


def is_text(head: bytes) -> bool:
    """Returns whether bytes are those of text: UTF-8 without control characters. A record begins with a length, whose upper bytes are
    zero."""
    text = head.decode("utf-8", "ignore")
    return len(text.encode()) > 0.9 * len(head) and not any(ord(sign) < 32 and sign not in "\t\n\r\f" for sign in text)


def _check_text(path: str) -> None:
    """Raises a DataError where a file holds text."""
    with open(path, "rb") as file:
        head = file.read(LOOKED_AT)
    if head and is_text(head):
        raise DataError(
            f"{path}: holds text ({head.decode('utf-8', 'ignore').strip()[:40]!r}), not records. `xmodels create_pretraining_data "
            f"--input_file={path}` makes records of it, whose folder --data_dir names."
        )


def _features_of(record: bytes, path: str, vocabulary_size: int) -> Features:
    try:
        found = tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
        raise DataError(f"{path}: the first record is no tf.train.Example ({error}).") from None
    missing = sorted(set(static_features(1, 1)) - set(found))
    if missing:
        raise DataError(f"{path}: not the layout of Google's script; missing {missing}, found {sorted(found)}.")
    largest = max([*found["input_ids"].int64_list.value, *found["masked_lm_ids"].int64_list.value], default=0)
    if largest >= vocabulary_size:
        raise DataError(
            f"{path}: holds the id {largest}, but --vocab_file has {vocabulary_size} pieces; the records were made with "
            "another vocabulary."
        )
    return static_features(len(found["input_ids"].int64_list.value), len(found["masked_lm_ids"].int64_list.value))
