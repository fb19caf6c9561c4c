"""Which examples share a batch, so that little of it is padding: buckets by length, or several examples in a row.

Both work on one window of shuffled examples after another and are pure functions of it. All examples of a window leave
with it, none twice; a batch's `cursor` (epoch, window, groups done in it) is all that resuming needs.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import ClassVar

import numpy as np
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.packing import pack_rows

ALONG_TOKENS = (
    "token_ids", "segment_ids", "role_ids", "task_ids", "position_ids", "padding_mask", "encoder_mask", "cross_mask", "word_start",
    "span_roles", "capital_labels", "repeated_labels", "character_ids", "ngram_ids", "reversed_labels",
    "reversed_character_ids", "other_ids",
)  # fmt: skip
# Where a decoder reads a text of its own.
ALONG_TARGETS = "target_ids", "target_position_ids", "labels", "label_weights"
ALONG_TAGS = ("labels", "label_weights", "word_ids")  # where each token has a label
PLACES = "start_positions", "end_positions"  # of tokens, so they move with these where padding stands before


class Grouping:
    """How windows become batches. By default a group is a batch: what it lacks is filled up with rows of zero weight.

    Attributes:
        comes_at_once: whether several batches may be made ready at once, as long as the longest of them.
    """

    comes_at_once: ClassVar[bool] = True

    def groups(self, lengths: tf.Tensor, batch_size: int) -> tf.Tensor:
        """Lengths (N,) of a window's examples -> int64 (G, W), their places in groups; -1 where a group has room."""
        raise NotImplementedError

    def computed(self, groups: np.ndarray, lengths: np.ndarray) -> int:
        """Returns the tokens that the network computes for the groups of examples of these lengths, padding included."""
        raise NotImplementedError

    def batches(self, stream: tf.data.Dataset, prepare: Callable, batch_size: int, per_batch: int) -> tf.data.Dataset:
        """Returns prepared batches of `per_batch` rows from (cursor, index (W,), item (W,)) of the groups.

        Args:
            prepare: (number of the batch of `batch_size` rows, epoch, index, item) -> features.
            per_batch: less than `batch_size` for a replica; a multiple of it for several batches at once, one behind the other, of
                which `prepare` has the number of the first.
        """
        if per_batch > batch_size:
            return self._at_once(stream, prepare, batch_size, per_batch // batch_size)

        def batch(number, group):
            cursor, index, item = group
            real = index >= 0
            examples = tf.boolean_mask(index, real), tf.boolean_mask(item, real)
            features, size = self.fit(
                prepare(number, tf.fill(tf.shape(examples[0]), cursor[0]), *examples), index, batch_size
            )
            return {**fill_up(features, size), "cursor": tf.tile(cursor[None], [size, 1])}

        stream = stream.enumerate().map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return split_among_replicas(stream, batch_size // per_batch).prefetch(tf.data.AUTOTUNE)

    def _at_once(self, stream: tf.data.Dataset, prepare: Callable, batch_size: int, count: int) -> tf.data.Dataset:
        """Returns the same of `count` groups at a time, (count batch_size, ...), all as long as the longest example needs."""

        def batches(number, groups):
            cursor, index, item = groups  # (C, 3), (C, W), (C, W)
            cursor = tf.repeat(cursor, batch_size, axis=0)
            real = tf.reshape(index, [-1]) >= 0
            columns = (tf.boolean_mask(tf.reshape(x, [-1]), real) for x in (index, item))
            features = prepare(number * count, tf.boolean_mask(cursor[:, 0], real), *columns)
            features, _ = self.fit(features, index, batch_size)
            examples = tf.reduce_sum(tf.cast(real, tf.int32))
            place = tf.where(real, tf.cumsum(tf.cast(real, tf.int32)) - 1, examples)  # behind the last one are zeros
            features = {n: tf.gather(value, place) for n, value in fill_up(features, examples + 1).items()}
            return {**features, "cursor": cursor}

        stream = stream.batch(count, drop_remainder=True).enumerate()
        return stream.map(batches, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(tf.data.AUTOTUNE)

    def fit(self, features: dict[str, tf.Tensor], index: tf.Tensor, batch_size: int):
        """Returns the features of the real rows of a group, perhaps shorter, and how many rows its batch has."""
        return features, batch_size

    def of_host(self, num_hosts: int) -> "Grouping":
        """Returns how one of several hosts groups its share of every batch."""
        return self

    def by_length(self, width: int) -> "Buckets | None":
        """Returns buckets with the same bounds for rows of up to `width`; None where length does not decide what shares a batch."""
        return None

    def described(self, batch_size: int) -> str:
        """Returns what tells the groups of a window from those that another grouping, or another size of batches, would make."""
        return f"{self}, {batch_size} rows"


def in_batches(places: tf.Tensor, batch_size: int) -> tf.Tensor:
    """Returns places (N,) in groups, int64 (G, batch_size), in their order; -1 behind the last one."""
    missing = -tf.size(places) % batch_size
    return tf.reshape(tf.pad(tf.cast(places, tf.int64), [[0, missing]], constant_values=-1), [-1, batch_size])


@dataclasses.dataclass(frozen=True)
class Buckets(Grouping):
    """A batch holds examples of one bucket of lengths, and is as long as that bucket.

    What a bucket leaves over is taken into the next longer one; of each window the last batch is filled up with rows of
    zero weight. So there are as many shapes as buckets, and every example comes once an epoch.

    Attributes:
        lengths: of the buckets, rising; the last holds the longest example.
    """

    lengths: tuple[int, ...]

    @classmethod
    def up_to(cls, width: int, bounds: Iterable[int]) -> "Buckets":
        """Returns the buckets of those bounds that are below `width`, which is the last."""
        return cls((*sorted(bound for bound in bounds if bound < width), width))

    def __str__(self) -> str:
        return f"Length buckets {', '.join(map(str, self.lengths))}"

    def by_length(self, width: int) -> "Buckets":
        return Buckets.up_to(width, self.lengths)

    def groups(self, lengths: tf.Tensor, batch_size: int) -> tf.Tensor:
        bucket = tf.searchsorted(tf.constant(self.lengths, lengths.dtype), lengths)
        return in_batches(tf.argsort(bucket, stable=True), batch_size)

    def fit(self, features, index, batch_size):
        width = tf.gather(self.lengths, tf.searchsorted(self.lengths, longest(features)[None])[0])
        return shorten_features(features, width), batch_size

    def computed(self, groups: np.ndarray, lengths: np.ndarray) -> int:
        longest = np.where(groups >= 0, lengths[groups], 0).max(axis=1)
        return int(np.array(self.lengths)[np.searchsorted(self.lengths, longest)].sum()) * groups.shape[1]


@dataclasses.dataclass(frozen=True)
class Rows(Grouping):
    """A row holds several examples, which do not see one another (see `ops.packing`).

    Best fit over a window, longest examples first: padding is what no shorter example could fill.

    Attributes:
        length: tokens of a row.
        most: examples in a row at most.
        num_predictions: hidden tokens in a row at most; see `slots`.
    """

    comes_at_once = False

    length: int
    most: int
    num_predictions: int

    def groups(self, lengths: tf.Tensor, batch_size: int) -> tf.Tensor:
        rows = tf.numpy_function(lambda x: pack(x, self.length, self.most), [lengths], tf.int64, stateful=False)
        return tf.ensure_shape(rows, [None, self.most])

    def batches(self, stream, prepare, batch_size, per_batch):
        op = pack_rows(self.length, self.most, self.num_predictions)

        def batch(number, group):
            cursor, index, item = group
            real = index >= 0  # (B, K)
            row = tf.where(real)[:, 0]
            examples = tf.gather(cursor[:, 0], row), tf.boolean_mask(index, real), tf.boolean_mask(item, real)
            features = prepare(number // (batch_size // per_batch), *examples)
            return {**op(features, row, per_batch), "cursor": cursor}

        stream = stream.batch(per_batch, drop_remainder=True).enumerate()
        return stream.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(tf.data.AUTOTUNE)

    def described(self, batch_size: int) -> str:
        return f"Rows of {self.length}, {self.most} examples"  # whatever their number in a batch

    def computed(self, groups: np.ndarray, lengths: np.ndarray) -> int:
        return len(groups) * self.length


def slots(length: int, most: int, rate: float, num_predictions: int) -> int:
    """Returns how many hidden tokens a row needs room for, where each example hides less than rate * its length + 1."""
    return min(most * num_predictions, int(rate * length) + most)


def pack(lengths: np.ndarray, row_length: int, most: int) -> np.ndarray:
    """Returns best fit, longest first: each example goes into the fullest row that still has room, else into a new one.

    Returns:
        int64 (rows, most): the places of the examples, -1 where a row holds fewer.
    """
    rows: list[list[int]] = []
    open_rows: list[list[int]] = [[] for _ in range(row_length + 1)]  # by the room left
    rooms = 0  # bit r is set where a row with room r is open
    for place in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[place])
        fitting = rooms >> length
        if fitting:
            capacity = length + (fitting & -fitting).bit_length() - 1
            row = open_rows[capacity].pop()
            if not open_rows[capacity]:
                rooms &= ~(1 << capacity)
        else:
            capacity, row = row_length, len(rows)
            rows.append([])
        rows[row].append(place)
        left = capacity - length
        if left and len(rows[row]) < most:
            open_rows[left].append(row)
            rooms |= 1 << left
    table = np.full((len(rows), most), -1, np.int64)
    for row, places in enumerate(rows):
        table[row, : len(places)] = places
    return table


def padding_share(lengths: np.ndarray, grouping: Grouping | None, width: int, batch_size: int) -> float:
    """Returns the share of padding if these examples were a window, batched as they come to `width`, or grouped."""
    real = int(lengths.sum())
    if grouping is None:
        return 1 - real / (len(lengths) * width)
    groups = grouping.groups(tf.constant(lengths, tf.int64), batch_size).numpy()
    return 1 - real / grouping.computed(groups, lengths)


def buckets(text: str, lengths: np.ndarray, width: int) -> Buckets:
    """Buckets of a flag: `auto` for the quarters of the lengths, or numbers parted by commas. The last is `width`.

    Raises:
        UsageError: the text is neither.
    """
    if text == "auto":
        bounds = {int(-(-np.quantile(lengths, share) // 8) * 8) for share in (0.25, 0.5, 0.75, 0.9)}
    else:
        try:
            bounds = {int(part) for part in text.split(",")}
        except ValueError:
            bounds = {0}
        if min(bounds) < 1:
            raise UsageError(f"--length_buckets={text}: give auto, or lengths such as 32,64,128.")
    return Buckets.up_to(width, bounds)


def longest(features: dict[str, tf.Tensor]) -> tf.Tensor:
    """Returns the tokens of the longest text of a batch, of source or target, int32 ()."""
    masks = [features["padding_mask"], *([features["label_weights"] > 0] if "target_ids" in features else [])]
    return tf.reduce_max([tf.reduce_max(tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)) for mask in masks])


def shorten_features(features: dict[str, tf.Tensor], width: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns what runs along the tokens cut to `width`, on the side where padding stands."""
    targets = ALONG_TARGETS if "target_ids" in features else ()
    used = tf.cast(tf.reduce_any(tf.cast(features["padding_mask"], tf.bool), axis=0), tf.int32)  # (L,)
    excess = tf.maximum(tf.size(used) - tf.cast(width, tf.int32), 0)
    first = tf.minimum(tf.argmax(used, output_type=tf.int32), excess)
    along = ALONG_TOKENS + (ALONG_TAGS if are_tagged(features) else ())
    cut = {n: v[:, first : first + width] for n, v in features.items() if n in along}
    moved = {n: features[n] - tf.cast(first, features[n].dtype) for n in PLACES if n in features}
    return {**features, **cut, **moved, **{n: features[n][:, :width] for n in targets if n in features}}


def are_tagged(features: dict[str, tf.Tensor]) -> bool:
    """Returns whether labels run along the tokens: those of hidden places and of targets have lengths of their own."""
    if "label_weights" not in features or "mask_positions" in features or "target_ids" in features:
        return False
    return features["label_weights"].shape[1:] == features["padding_mask"].shape[1:]


def split_among_replicas(stream: tf.data.Dataset, replicas: int) -> tf.data.Dataset:
    """Returns each batch as so many of its parts, one behind the other, so that replicas compute the same length at a time."""
    if replicas == 1:
        return stream

    def split(features):
        return {n: tf.reshape(v, [replicas, -1, *_free(v.shape[1:], v)]) for n, v in features.items()}

    return stream.map(split).unbatch()


def fill_up(features: dict[str, tf.Tensor], batch_size: int | tf.Tensor) -> dict[str, tf.Tensor]:
    """Fills a batch up with rows of zeros, which have no weight; their number is static where `batch_size` is one."""
    filled = {}
    for name, value in features.items():
        missing = batch_size - tf.shape(value)[0]
        value = tf.pad(value, [[0, missing]] + [[0, 0]] * (value.shape.rank - 1))
        static = batch_size if isinstance(batch_size, int) else None
        filled[name] = tf.ensure_shape(value, [static, *value.shape[1:]])
    return filled


def _free(shape, value):
    return [tf.shape(value)[axis + 1] if size is None else size for axis, size in enumerate(shape)]
