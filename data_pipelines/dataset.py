"""Records -> a seeded, shuffled, sharded, transformed, batched tf.data.Dataset that resumes at any example.

The order of examples and all random draws are functions of (seed, epoch, index), so a resumed run sees what an
uninterrupted one would have seen, whatever the number of threads.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from data_pipelines.errors import DataError
from data_pipelines.features import Feature
from data_pipelines.ops.compose import Op
from data_pipelines.ops.seeds import example_seeds
from data_pipelines.records import Manifest, verify

SHUFFLE_WINDOW = 32_768  # records; they are mixed within windows, and the shards in every epoch
FOREVER = 1 << 40


class RecordSource:
    """The verified shards of a data folder.

    Raises:
        DataError: a shard is missing or has another size than the manifest says.
    """

    def __init__(self, folder: str, manifest: Manifest | None = None):
        self.manifest = manifest or Manifest.read(folder)
        verify(folder, self.manifest)
        self.features = self.manifest.features
        self.name = folder
        counts = [shard.examples for shard in self.manifest.shards]
        self.paths = [os.path.join(folder, shard.name) for shard in self.manifest.shards]
        self.starts = [0, *np.cumsum(counts).tolist()][:-1]
        self.counts = counts

    def part(self, index: int, count: int) -> "RecordSource":
        """Every `count`-th shard, for one of several hosts. The indices of the records stay those of the whole."""
        if count > len(self.paths):
            raise DataError(
                f"{self.name}: {len(self.paths)} shards cannot be shared by {count} hosts; make more shards."
            )
        part = object.__new__(RecordSource)
        part.__dict__.update(self.__dict__)
        for name in ("paths", "starts", "counts"):
            setattr(part, name, getattr(self, name)[index::count])
        return part

    @property
    def num_examples(self) -> int:
        return sum(self.counts)

    def epoch(self, epoch: tf.Tensor, seed: int, shuffle: bool) -> tf.data.Dataset:
        """(index, serialized example) of all records, in an order that depends on seed and epoch."""
        order = tf.range(len(self.paths), dtype=tf.int64)
        if shuffle:
            order = tf.gather(order, _permutation(seed, epoch, order))
        files = tf.data.Dataset.from_tensor_slices(
            (tf.gather(self.paths, order), tf.gather(tf.constant(self.starts, tf.int64), order))
        )
        records = files.interleave(
            lambda path, start: tf.data.TFRecordDataset(path).enumerate(start),
            cycle_length=min(16, len(self.paths)) if shuffle else 1,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        return records.batch(SHUFFLE_WINDOW).flat_map(_shuffled(seed, epoch)) if shuffle else records

    def parse(self, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        """A batch of serialized examples as dense tensors; free lengths are padded with zeros."""
        width = self.manifest.settings.get("max_sequence_length")
        parsed = tf.io.parse_example(serialized, {name: _spec(feature) for name, feature in self.features.items()})
        return {
            name: v.to_tensor(0, shape=(None, width)) if isinstance(v, tf.RaggedTensor) else v
            for name, v in parsed.items()
        }


def _permutation(seed: int, epoch: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """An order of the places of `index`, int64 (N,), by a hash of seed, epoch and index.

    `Dataset.shuffle` would do, but its order also depends on TensorFlow's global seed, and with one set it does not
    take the epoch as a tensor.
    """
    key = tf.bitwise.right_shift(example_seeds(seed + 1, epoch, index), tf.constant(1, tf.uint64))
    return tf.cast(tf.argsort(tf.cast(key, tf.int64), stable=True), tf.int64)


def _shuffled(seed: int, epoch: tf.Tensor) -> Callable:
    def window(index, item):
        order = _permutation(seed, epoch, index)
        return tf.data.Dataset.from_tensor_slices((tf.gather(index, order), tf.gather(item, order)))

    return window


def _spec(feature: Feature):
    dtype = tf.float32 if feature.dtype == "float32" else tf.int64
    if None in feature.shape:
        return tf.io.RaggedFeature(dtype)
    return tf.io.FixedLenFeature(feature.shape, dtype)


class ArraySource:
    """Examples held in memory: arrays with a common first axis."""

    def __init__(self, arrays: Mapping[str, np.ndarray], name: str):
        self.arrays = dict(arrays)
        with tf.device("CPU"):  # made once, so that graphs refer to them and hold no copies
            self.tensors = {n: tf.constant(a) for n, a in self.arrays.items()}
        self.name = name
        self.features = {n: Feature(a.shape[1:], str(a.dtype)) for n, a in self.arrays.items()}
        self.num_examples = len(next(iter(self.arrays.values())))
        self.indices = np.arange(self.num_examples)

    def part(self, index: int, count: int) -> "ArraySource":
        """Every `count`-th example, for one of several hosts. The indices stay those of the whole."""
        part = ArraySource({name: array[index::count] for name, array in self.arrays.items()}, self.name)
        part.indices = self.indices[index::count]
        return part

    def epoch(self, epoch: tf.Tensor, seed: int, shuffle: bool) -> tf.data.Dataset:
        """(index, place in the arrays) of all examples."""
        indices = tf.constant(self.indices, tf.int64)
        places = tf.range(self.num_examples, dtype=tf.int64)
        if shuffle:
            places = _permutation(seed, epoch, indices)
        return tf.data.Dataset.from_tensor_slices((tf.gather(indices, places), places))

    def parse(self, places: tf.Tensor) -> dict[str, tf.Tensor]:
        return {name: tf.gather(tf.constant(array), places) for name, array in self.arrays.items()}


@dataclasses.dataclass(frozen=True)
class Batches:
    """How to read a source.

    Attributes:
        source: a RecordSource or ArraySource.
        transform: the op that makes a batch ready for the network.
        batch_size: examples a batch, over all replicas.
        seed: shuffles and draws.
        keep: names of the features that the network needs; others are dropped. None keeps all.
    """

    source: RecordSource | ArraySource
    transform: Op
    batch_size: int
    seed: int = 0
    keep: tuple[str, ...] | None = None

    def training(self, consumed: int = 0, host: int = 0, num_hosts: int = 1, per_batch: int = 0) -> tf.data.Dataset:
        """An endless stream of whole batches.

        Args:
            consumed: examples that this host has seen already; reading goes on behind them.
            per_batch: examples a batch of this dataset, where a batch is shared by replicas.
        """
        source = self.source.part(host, num_hosts)
        first, offset = divmod(consumed, source.num_examples)

        def epoch(number):
            examples = source.epoch(number, self.seed, shuffle=True)
            return examples.map(lambda index, item: (number, index, item))

        # Within an epoch, skipping re-reads the raw records, a quarter of a million a second, without parsing them.
        stream = epoch(tf.constant(first, tf.int64)).skip(offset)
        stream = stream.concatenate(tf.data.Dataset.range(first + 1, FOREVER).flat_map(epoch))
        return self._batched(stream, source, per_batch or self.batch_size)

    def once(self, max_batches: int | None = None) -> tf.data.Dataset:
        """All examples once, in order; the last batch is filled up with rows of zero weight."""
        stream = self.source.epoch(tf.constant(0, tf.int64), self.seed, shuffle=False)
        stream = stream.map(lambda index, item: (tf.constant(0, tf.int64), index, item))
        if max_batches is not None:
            stream = stream.take(max_batches * self.batch_size)
        return self._batched(stream, self.source, self.batch_size, fill=True)

    def zeros(self) -> dict[str, tf.Tensor]:
        """A batch of zeros with the shapes and types of the real ones, to build layers with."""
        return {name: tf.zeros(spec.shape, spec.dtype) for name, spec in self.once(1).element_spec.items()}

    def _batched(self, stream, source, batch_size: int, fill: bool = False) -> tf.data.Dataset:
        def prepare(epoch, index, item):
            features = {**source.parse(item), "seed": example_seeds(self.seed, epoch, index)}
            features["example_weights"] = tf.ones_like(index, tf.float32)
            features = self.transform(features)
            if self.keep is not None:
                features = {name: features[name] for name in self.keep}
            return _fixed(features, batch_size)

        stream = stream.batch(batch_size, drop_remainder=not fill)
        return stream.map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(tf.data.AUTOTUNE)


def _fixed(features: dict[str, tf.Tensor], batch_size: int) -> dict[str, tf.Tensor]:
    """Fills a batch up with zeros, so that its shape is static and the added rows have no weight."""
    fixed = {}
    for name, value in features.items():
        missing = batch_size - tf.shape(value)[0]
        value = tf.pad(value, [[0, missing]] + [[0, 0]] * (value.shape.rank - 1))
        fixed[name] = tf.ensure_shape(value, [batch_size, *value.shape[1:]])
    return fixed
