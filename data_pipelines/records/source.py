"""The records of a folder as a source of batches: verified, indexed, and read from any place on."""

import os
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import tensorflow as tf

from data_pipelines.errors import DataError
from data_pipelines.features import Feature, lengths_of
from data_pipelines.ops.seeds import permutation
from data_pipelines.records.formats import format_of
from data_pipelines.records.manifest import Manifest
from data_pipelines.records.promises import check_promises
from data_pipelines.records.shards import CHUNK, chunk_offsets
from data_pipelines.records.verification import damage, verify

SHUFFLE_WINDOW = 32_768  # records; chunks of them are mixed over all shards, then records within windows of chunks
READ_BUFFER = 1 << 18  # bytes


class RecordSource:
    """The verified shards of a data folder.

    Args:
        leave_out_damaged: read on without the shards that are missing or not as they were written, which are found by
            their SHA-256; `lost` names them. The indices of all other records stay what they are.

    Raises:
        DataError: a shard is missing or has another size than the manifest says, all of them are damaged, or the first records are
            not what it promises.
    """

    item_dtype = tf.string  # of what `in_order` gives and `parse` takes
    tables: ClassVar[dict[str, tf.Tensor]] = {}  # none of its features is held as codes

    def __init__(self, folder: str, manifest: Manifest | None = None, leave_out_damaged: bool = False):
        self.manifest = manifest or Manifest.read(folder)
        self.lost = damage(folder, self.manifest, deep=True) if leave_out_damaged else {}
        if len(self.lost) == len(self.manifest.shards) or not leave_out_damaged:
            verify(folder, self.manifest, deep=leave_out_damaged)
        self.features = self.manifest.features
        self.format = format_of(self.manifest.settings)
        self.name = folder
        starts = np.cumsum([0, *(shard.examples for shard in self.manifest.shards)]).tolist()
        kept = [i for i, shard in enumerate(self.manifest.shards) if shard.name not in self.lost]
        shards = [self.manifest.shards[i] for i in kept]
        self.paths = [os.path.join(folder, shard.name) for shard in shards]
        self.starts = [starts[i] for i in kept]
        self.counts = [shard.examples for shard in shards]
        self.offsets = [chunk_offsets(path, shard) for path, shard in zip(self.paths, shards, strict=True)]
        if folder and self.paths:  # Google's records have no manifest that could be wrong
            length = self.manifest.settings.max_sequence_length
            width = None if length is None else self.format.width(length)
            check_promises(folder, self.paths[0], self.features, width)

    def part(self, index: int, count: int) -> "RecordSource":
        """Returns every `count`-th shard, for one of several hosts. The indices of the records stay those of the whole."""
        if count > len(self.paths):
            raise DataError(
                f"{self.name}: {len(self.paths)} shards cannot be shared by {count} hosts; make more shards."
            )
        part = object.__new__(RecordSource)
        part.__dict__.update(self.__dict__)
        for name in ("paths", "starts", "counts", "offsets"):
            setattr(part, name, getattr(self, name)[index::count])
        return part

    @property
    def num_examples(self) -> int:
        return sum(self.counts)

    def _chunks(self) -> tuple[tf.Tensor, ...]:
        """Returns shard, byte, number of records, and index of the first record of all chunks: int64 (C,) each."""
        rows = [
            (shard, byte, min(CHUNK, count - number * CHUNK), start + number * CHUNK)
            for shard, (start, count, offsets) in enumerate(zip(self.starts, self.counts, self.offsets, strict=True))
            for number, byte in enumerate(offsets)
        ]
        return tuple(tf.constant(column, tf.int64) for column in zip(*rows, strict=True))

    def _order(self, epoch: tf.Tensor, seed: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the chunks in the order of an epoch, and the window in which each falls, both int64 (C,)."""
        _, _, counts, starts = self._chunks()
        order = permutation(seed + 2, epoch, starts)
        ahead = tf.cumsum(tf.gather(counts, order), exclusive=True)
        return order, ahead // SHUFFLE_WINDOW

    def window_sizes(self, epoch: int, seed: int) -> np.ndarray:
        """Returns how many records each window of an epoch holds. Costs nothing per record."""
        order, window = self._order(tf.constant(epoch, tf.int64), seed)
        return np.bincount(window.numpy(), tf.gather(self._chunks()[2], order).numpy()).astype(np.int64)

    def windows(self, epoch: tf.Tensor, seed: int, first: tf.Tensor) -> tf.data.Dataset:
        """Returns (index, serialized example), both (N,), of each window from the window `first` on, shuffled."""
        order, window = self._order(epoch, seed)

        def read(number):
            mine = tf.boolean_mask(order, window == number)
            chunks = tf.data.Dataset.from_tensor_slices(self._places(mine))
            records = chunks.interleave(
                _read_chunk, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
            )
            return records.batch(SHUFFLE_WINDOW + CHUNK)

        numbers = tf.data.Dataset.range(first, tf.reduce_max(window) + 1)
        return numbers.flat_map(read).prefetch(1).map(_shuffled(seed, epoch))

    def in_order(self) -> tf.data.Dataset:
        """Returns (index, serialized example) of all records, as they stand."""
        every = tf.range(sum(map(len, self.offsets)), dtype=tf.int64)
        return tf.data.Dataset.from_tensor_slices(self._places(every)).flat_map(_read_chunk)

    @property
    def is_stream(self) -> bool:
        """Whether the records continue one another; then their order must be kept."""
        return self.format.is_stream

    def read_from(self, first: tf.Tensor) -> tf.data.Dataset:
        """Returns (index, serialized example) of all records from the place `first` on, as they stand, and round for ever."""
        counts = self._chunks()[2]
        before = tf.cumsum(counts, exclusive=True)
        chunk = tf.searchsorted(before, tf.reshape(first, [1]), side="right")[0] - 1
        rest = tf.range(tf.cast(chunk, tf.int64), tf.size(counts, tf.int64))
        here = tf.data.Dataset.from_tensor_slices(self._places(rest)).flat_map(_read_chunk)
        return here.skip(first - tf.gather(before, chunk)).concatenate(self.in_order().repeat())

    def _places(self, chunks: tf.Tensor) -> tuple[tf.Tensor, ...]:
        shard, *others = (tf.gather(column, chunks) for column in self._chunks())
        return tf.gather(self.paths, shard), *others

    def lengths(self, serialized: tf.Tensor) -> tf.Tensor:
        """Returns the tokens of each example with its special tokens, int64 (N,)."""
        self._check_has(self.format.measured)
        spec = {name: _spec(name, self.features[name]) for name in self.format.measured}
        return self.format.lengths(tf.io.parse_example(serialized, spec))

    def _check_has(self, names: tuple[str, ...]) -> None:
        """Raises a DataError that names the feature which the records lack."""
        for name in names:
            if name not in self.features:
                raise DataError(
                    f"{self.name}: the manifest names no feature `{name}`, which records of this kind have. Found: "
                    f"{', '.join(sorted(self.features))}. Make the records again."
                )

    def parse(self, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns a batch of serialized examples as dense tensors; free lengths are padded with zeros to the width of the format."""
        self._check_has(self.format.ids)
        if self.manifest.settings.max_sequence_length is None:
            raise DataError(
                f"{self.name}: the manifest says no `settings.max_sequence_length`. Make the records again."
            )
        width = self.format.width(self.manifest.settings.max_sequence_length)
        spec = {name: _spec(name, feature) for name, feature in self.features.items()}
        parsed = tf.io.parse_example(serialized, spec)
        return {
            name: v.to_tensor(0, shape=(None, width, *self.features[name].shape[1:]))
            if isinstance(v, tf.RaggedTensor)
            else v
            for name, v in parsed.items()
        }


def _read_chunk(path: tf.Tensor, byte: tf.Tensor, count: tf.Tensor, start: tf.Tensor) -> tf.data.Dataset:
    """Returns (index, serialized example) of `count` records from a byte on.

    `tf.data.TFRecordDataset` hides the offset that its kernel takes; so the kernel is called by its public name.
    """
    records = tf.raw_ops.TFRecordDatasetV2(
        filenames=tf.reshape(path, [1]), compression_type="", buffer_size=tf.constant(READ_BUFFER, tf.int64),
        byte_offsets=tf.reshape(byte, [1]),
    )  # fmt: skip
    return tf.data.experimental.from_variant(records, tf.TensorSpec([], tf.string)).take(count).enumerate(start)


def _shuffled(seed: int, epoch: tf.Tensor) -> Callable:
    def window(index, item):
        order = permutation(seed + 1, epoch, index)
        return tf.gather(index, order), tf.gather(item, order)

    return window


def _spec(name: str, feature: Feature):
    """Returns how a feature is parsed: the first axis may be free, the others have fixed sizes and are stored side by side; or, of
    a ragged feature, sizes that are stored beside it."""
    dtype = tf.float32 if feature.dtype == "float32" else tf.int64
    if feature.is_ragged:
        return tf.io.RaggedFeature(dtype, name, [tf.io.RaggedFeature.RowLengths(lengths_of(name))])
    if None not in feature.shape:
        return tf.io.FixedLenFeature(feature.shape, dtype)
    inner = [tf.io.RaggedFeature.UniformRowLength(size) for size in feature.shape[1:]]
    return tf.io.RaggedFeature(dtype, name, inner)
