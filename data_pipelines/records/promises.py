"""Compares what a manifest promises of records with the first records themselves, before arrays of these sizes are made."""

import itertools
import math
import struct
from collections.abc import Iterator, Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError

from data_pipelines.errors import DataError
from data_pipelines.features import Feature, Features, lengths_of
from data_pipelines.records.shards import masked_crcs

SAMPLE = 16  # records of the first shard
# A maximum length is believed up to the one, and up to so many times the longest feature of these records.
LONGEST, TIMES = 4096, 256
FLOATS = "float32"


def check_promises(folder: str, path: str, features: Features, width: int | None) -> None:
    """Compares features and width with the first records of a shard. What is no record is left to those who read it.

    Args:
        folder: of the records, for messages.
        path: of the shard.
        width: what a feature of free length is padded to.

    Raises:
        DataError: names the feature, what was promised and what was found.
    """
    longest, advice = 0, "Make the records again, or copy the manifest that was written with them."
    for number, record in enumerate(itertools.islice(_records(path), SAMPLE)):
        try:
            held = tf.train.Example.FromString(record).features.feature
        except DecodeError:
            return
        here = f"{path}, record {number}"
        beside = {lengths_of(name) for name, feature in features.items() if feature.is_ragged}
        if unnamed := sorted(set(held) - set(features) - beside):
            raise DataError(f"{here}: holds `{unnamed[0]}`, which the manifest of {folder} does not name. {advice}")
        for name, feature in features.items():
            count, kind = _count(held[name]) if name in held else (0, None)
            if kind not in (None, feature.dtype == FLOATS) or not _fits(count, feature):
                found = {None: "nothing", True: f"{count:,} fractions", False: f"{count:,} whole numbers"}[kind]
                raise DataError(
                    f"{here}: `{name}` holds {found}, but the manifest of {folder} says {list(feature.shape)} of "
                    f"{feature.dtype}. {advice}"
                )
            if feature.is_ragged:
                count = _check_rows(here, name, feature, count, held.get(lengths_of(name)), advice)
            longest = max(longest, count)
    if width is not None and longest and width > max(LONGEST, TIMES * longest):
        raise DataError(
            f"{folder}: the manifest says that records have up to {width:,} tokens, but the first {SAMPLE} of {path} have at most "
            f"{longest:,}. {advice}"
        )


def _check_rows(
    here: str, name: str, feature: Feature, count: int, lengths: tf.train.Feature | None, advice: str
) -> int:
    """Returns the rows of a ragged feature. Raises a DataError where they do not hold its numbers, or one is too long."""
    rows = list(lengths.int64_list.value) if lengths is not None else []
    if sum(rows) != count or min(rows, default=0) < 0:
        raise DataError(f"{here}: `{name}` holds {count:,} numbers, but its rows {sum(rows):,}. {advice}")
    if max(rows, default=0) > feature.shape[1]:
        raise DataError(
            f"{here}: `{name}` has a row of {max(rows):,}, but the manifest says at most {feature.shape[1]:,}. {advice}"
        )
    return len(rows)


def _count(feature: tf.train.Feature) -> tuple[int, bool | None]:
    """Returns how many numbers a feature holds, and whether they are fractions; None where it holds nothing."""
    kind = feature.WhichOneof("kind")
    values: Sequence = getattr(feature, kind).value if kind else ()
    return len(values), None if not values else kind == "float_list"


def _fits(count: int, feature: Feature) -> bool:
    if feature.is_ragged:
        return True
    fixed = math.prod(size for size in feature.shape if size is not None)
    return (count == 0 or (fixed > 0 and count % fixed == 0)) if None in feature.shape else count == fixed


def _records(path: str) -> Iterator[bytes]:
    """Yields the records of a shard, up to the first one that is damaged."""
    with open(path, "rb") as file:
        while len(header := file.read(12)) == 12:
            (length,) = struct.unpack("<Q", header[:8])
            if length > 1 << 28:
                return
            record = file.read(length)
            if len(record) < length or file.read(4) != masked_crcs([record]).tobytes():
                return
            yield record
