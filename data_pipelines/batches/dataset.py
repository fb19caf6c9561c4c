"""A source -> a seeded, shuffled, sharded, transformed, batched tf.data.Dataset that resumes at any example.

The order of examples and all random draws are functions of (seed, epoch, index), so a resumed run sees what an
uninterrupted one would have seen, whatever the number of threads.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from data_pipelines.batches.array_source import ArraySource
from data_pipelines.batches.grouping import Grouping, fill_up
from data_pipelines.errors import DataError
from data_pipelines.ops.compose import Op
from data_pipelines.ops.seeds import example_seeds, fold, permutation
from data_pipelines.records.source import RecordSource

FOREVER = 1 << 40  # epochs
NOT_OF_TRAINING = -1  # the number of a batch that scores a network
BATCH_EPOCH = np.int64(FOREVER + 1)  # no epoch of examples, so that no seed of a batch is that of an example
OF_BATCH = ("progress", "batch_seed")  # features that only ops see
# Ops use TensorFlow's own loops and conditions; to look for Python's took longer than all else before the first batch.
WITHOUT_AUTOGRAPH = tf.autograph.experimental.do_not_convert


@dataclasses.dataclass(frozen=True)
class Batches:
    """How to read a source.

    Attributes:
        source: a RecordSource or ArraySource.
        transform: the op that makes a batch ready for the network. It is traced once for all datasets that read the same
            features, of these batches and of others that `dataclasses.replace` makes of them.
        batch_size: examples a batch, over all replicas.
        seed: shuffles and draws.
        keep: names of the features that the network may need; others are dropped. None keeps all.
        grouping: which examples form a batch in training: buckets by length, or rows of several examples. None takes
            them as they come.
        num_steps: batches of the whole training, of which `progress` tells the transform the share that is read; None where
            nobody asks.
        rows_per_example: how many rows the transform makes of each example.
        begins_at: batches of the training that are read before the first of these, of other `Batches`.
        prepare: (epoch, index, item), each (N,), and the number of the batch -> what the network reads of these examples. Made
            of the others, and traced once for all batches that differ in size and grouping only.
    """

    source: RecordSource | ArraySource
    transform: Op
    batch_size: int
    seed: int = 0
    keep: tuple[str, ...] | None = None
    grouping: Grouping | None = None
    num_steps: int | None = None
    rows_per_example: int = 1
    begins_at: int = 0
    prepare: "_Prepare | None" = dataclasses.field(default=None, repr=False, compare=False)

    def __post_init__(self):
        if not isinstance(self.transform, tf.types.experimental.PolymorphicFunction):
            object.__setattr__(self, "transform", tf.function(self.transform, autograph=False))
        prepare = _Prepare(self.source, self.transform, self.seed, self.keep, self.num_steps)
        if self.prepare != prepare:
            object.__setattr__(self, "prepare", prepare)

    @property
    def continues(self) -> bool:
        """Whether the rows of a batch go on where those of the batch before ended."""
        return self.grouping is None and self.source.is_stream

    @WITHOUT_AUTOGRAPH
    def training(
        self, consumed: int = 0, host: int = 0, num_hosts: int = 1, per_batch: int = 0, first_epoch: int = 0,
        cursor: tuple[int, int, int] | None = None, first_batch: int = 0, decoded: bool = True,
    ) -> tf.data.Dataset:  # fmt: skip
        """Returns an endless stream of whole batches. Where it goes on is found without reading what lies before.

        Args:
            consumed: examples that this host has seen already since `first_epoch`; reading goes on behind them.
            host, num_hosts: which part of the shards to read; each host reads its share of every batch.
            per_batch: examples a batch of this dataset, where a batch is shared by replicas, or several are read at once.
            first_epoch: the epoch with which reading began.
            cursor: with a grouping, the last row of the feature `cursor` of the last batch seen, in place of `consumed`.
            first_batch: batches of the training that were read before, by all hosts together.
            decoded: whether arrays that the source holds as codes are whole. A reader of codes finds their meaning in its `tables`.
        """
        if num_hosts > 1:
            part = dataclasses.replace(
                self, source=self.source.part(host, num_hosts), batch_size=self.batch_size // num_hosts,
                grouping=self.grouping and self.grouping.of_host(num_hosts),
            )  # fmt: skip
            return part.training(
                consumed, per_batch=per_batch, first_epoch=first_epoch, cursor=cursor, first_batch=first_batch, decoded=decoded
            )  # fmt: skip
        source, per_batch = self.source, per_batch or self.batch_size
        first_batch += self.begins_at
        if self.continues:
            return self._batched(self._rows(source, consumed), per_batch, first_batch, decoded=decoded)
        if self.grouping is None:
            epochs, offset = divmod(consumed, source.num_examples)
            before = np.cumsum([0, *source.window_sizes(first_epoch + epochs, self.seed)])
            window = int(np.searchsorted(before, offset, side="right")) - 1
            stream = self._from(source, first_epoch + epochs, window, offset - int(before[window]), _singly)
            return self._batched(stream, per_batch, first_batch, decoded=decoded)
        if consumed and cursor is None:
            raise DataError(f"{self.source.name}: batches were grouped otherwise when this run began; begin another.")

        def grouped(epoch, window, index, item):
            groups = self.grouping.groups(source.lengths(item), self.batch_size)  # (G, W), -1 where empty
            groups = tf.gather(groups, permutation(self.seed + 3, epoch, tf.gather(index, groups[:, 0])))
            count = tf.shape(groups, tf.int64)[0]
            columns = tf.fill([count], epoch), tf.fill([count], window), tf.range(1, count + 1)
            where = tf.stack(columns, axis=1)  # (G, 3)
            real, places = groups >= 0, tf.maximum(groups, 0)
            item = tf.where(real, tf.gather(item, places), tf.zeros([], item.dtype))
            return tf.data.Dataset.from_tensor_slices((where, tf.where(real, tf.gather(index, places), groups), item))

        stream = self._from(source, *(cursor or (first_epoch, 0, 0)), grouped)

        def prepare(number, *examples):
            return self.prepare(*examples, first_batch + number)

        batches = self.grouping.batches(stream, prepare, self.batch_size, per_batch)
        if not decoded or not source.tables:
            return batches
        batches = batches.map(self.decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return batches.prefetch(tf.data.AUTOTUNE)

    def decode(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns features in which arrays that the source holds as codes are whole."""
        tables = self.source.tables.items()
        return {**features, **{name: tf.gather(table, features[name]) for name, table in tables if name in features}}

    def _rows(self, source: RecordSource, consumed: int) -> tf.data.Dataset:
        """Returns the examples of a stream, so that every row of a batch goes on where it ended in the batch before.

        Row r of B begins with record r N / B, and goes on for ever: after an epoch it has reached where row r + 1 began.
        (Dai et al., 2019, section 3.2)
        """
        total = source.num_examples
        if total < self.batch_size:
            raise DataError(
                f"{source.name}: {total} runs cannot fill {self.batch_size} rows; take a smaller batch size."
            )
        starts = np.arange(self.batch_size, dtype=np.int64) * total // self.batch_size + consumed // self.batch_size

        def row(start):
            return source.read_from(start % total).enumerate(start).map(lambda n, example: (n // total, *example))

        rows = tf.data.Dataset.from_tensor_slices(starts)
        return rows.interleave(row, cycle_length=self.batch_size, block_length=1)

    def _rows_once(self, source: RecordSource) -> tf.data.Dataset:
        """Returns the examples of a stream as `_rows` reads them, each once; where a row ends before others, its index is -1."""
        bounds = np.arange(self.batch_size + 1, dtype=np.int64) * source.num_examples // self.batch_size
        steps = int(np.diff(bounds).max())

        def row(start, end):
            numbered = source.read_from(start).enumerate(start).take(steps)
            return numbered.map(lambda n, example: (np.int64(0), tf.where(n < end, example[0], -1), example[1]))

        rows = tf.data.Dataset.from_tensor_slices((bounds[:-1], bounds[1:]))
        return rows.interleave(row, cycle_length=self.batch_size, block_length=1)

    def _from(self, source, epoch: int, window: int, skipped: int, unfold) -> tf.data.Dataset:
        """Returns all that windows unfold into, from a place of a window on, for ever."""

        def windows(number):
            first = tf.where(number == epoch, tf.constant(window, tf.int64), 0)
            found = source.windows(number, self.seed, first).enumerate(first)
            return found.flat_map(lambda window, examples: unfold(number, window, *examples))

        return tf.data.Dataset.range(epoch, FOREVER).flat_map(windows).skip(skipped)

    @WITHOUT_AUTOGRAPH
    def once(self, max_batches: int | None = None) -> tf.data.Dataset:
        """Returns all examples once, in order and one in a row; the last batch is filled up with rows of zero weight.

        Of streams, each row of a batch goes on where it ended in the batch before.
        """
        source = self.source
        if source.is_stream and source.num_examples >= self.batch_size:
            stream = self._rows_once(source)
        else:
            stream = source.in_order().map(lambda index, item: (tf.constant(0, tf.int64), index, item))
        if max_batches is not None:
            stream = stream.take(max_batches * self.batch_size)
        return self._batched(stream, self.batch_size, fill=True)

    @WITHOUT_AUTOGRAPH
    def once_by_length(self) -> tuple[tf.data.Dataset, np.ndarray]:
        """Returns all examples of an `ArraySource` once, in batches by length, for a grouping that goes by it; what batches lack is
        filled up with rows of zero weight. Returns also the place of each example in the source, in the order in which they come."""
        source = self.source
        grouping = self.grouping.by_length(max(mask.shape[1] for mask in source.masks))
        groups = grouping.groups(tf.constant(source.num_tokens, tf.int64), self.batch_size).numpy()
        real, places = groups >= 0, np.maximum(groups, 0)
        indices = np.where(real, source.indices[places], -1)
        stream = tf.data.Dataset.from_tensor_slices((np.zeros((len(groups), 3), np.int64), indices, places))

        def prepare(number, *examples):
            return self.prepare(*examples, NOT_OF_TRAINING)

        def without_cursor(features):
            return self.decode({name: value for name, value in features.items() if name != "cursor"})

        batches = grouping.batches(stream, prepare, self.batch_size, self.batch_size)
        return batches.map(without_cursor), groups[real]

    def zeros(self) -> dict[str, tf.Tensor]:
        """Returns a batch of zeros with the shapes and types of the real ones, to build layers with."""
        return {name: tf.zeros(spec.shape, spec.dtype) for name, spec in self._element_spec.items()}

    @functools.cached_property
    def _element_spec(self) -> dict[str, tf.TensorSpec]:
        return self.once(1).element_spec

    def _batched(
        self, stream, batch_size: int, first_batch: int = 0, fill: bool = False, decoded: bool = True
    ) -> tf.data.Dataset:
        prepare = self.prepare
        decode = self.decode if decoded else lambda features: features
        if fill:  # indices may be -1
            prepare = _zero_missing(self.prepare, self.rows_per_example)
        stream = stream.batch(batch_size, drop_remainder=not fill)
        stream = stream.enumerate().map(
            lambda number, examples: decode(
                fill_up(
                    prepare(
                        *examples, NOT_OF_TRAINING if fill else first_batch + number * batch_size // self.batch_size
                    ),
                    batch_size * self.rows_per_example,
                )
            ),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        return stream.prefetch(tf.data.AUTOTUNE)


@dataclasses.dataclass(frozen=True)
class _Prepare:
    """Parses, numbers and transforms examples, in a graph of its own."""

    source: RecordSource | ArraySource
    transform: Op
    seed: int
    keep: tuple[str, ...] | None
    num_steps: int | None

    @functools.cached_property
    def traced(self) -> Callable:
        places = tf.TensorSpec([None], tf.int64)
        signature = [places, places, tf.TensorSpec([None], self.source.item_dtype), tf.TensorSpec([], tf.int64)]
        return tf.function(self._features, input_signature=signature, autograph=False)

    def __call__(self, epoch, index, item, number=NOT_OF_TRAINING) -> dict[str, tf.Tensor]:
        return self.traced(epoch, index, item, number)

    def _features(self, epoch, index, item, number):
        features = {**self.source.parse(item), "seed": example_seeds(self.seed, epoch, index)}
        features["example_weights"] = tf.ones_like(index, tf.float32)
        features = self.transform(features | self._of_batch(features["seed"], number))
        features = {name: value for name, value in features.items() if name not in OF_BATCH}
        if self.keep is not None:
            features = {name: features[name] for name in self.keep if name in features}
        return features

    def _of_batch(self, seeds, number) -> dict[str, tf.Tensor]:
        """Returns what all examples of a batch share; of those that score a network each has a seed of its own, and training is
        over."""
        in_training, numbers = number >= 0, tf.fill(tf.shape(seeds), number)
        progress = tf.ones_like(numbers, tf.float32)
        if self.num_steps is not None:
            share = tf.cast(tf.cast(numbers, tf.float64) / self.num_steps, tf.float32)
            progress = tf.where(in_training, share, progress)
        drawn = fold(example_seeds(self.seed, BATCH_EPOCH, numbers), 0)
        return {"progress": progress, "batch_seed": tf.where(in_training, drawn, fold(seeds, 3))}


def _zero_missing(prepare: Callable, rows_per_example: int) -> Callable:
    """Returns `prepare`, with zeros, which have no weight, in the rows of examples of which the index is -1."""

    def where(exists, value):
        exists = tf.reshape(exists, [-1] + [1] * (value.shape.rank - 1))
        return tf.where(exists, value, tf.zeros([], value.dtype))

    def op(epoch, index, item, number):
        features = prepare(epoch, index, item, number)
        exists = tf.repeat(index >= 0, rows_per_example)
        return {name: where(exists, value) for name, value in features.items()}

    return op


def _singly(epoch, window, index, item):
    return tf.data.Dataset.from_tensor_slices((tf.fill(tf.shape(index), epoch), index, item))
