"""Batches of about equally many tokens: of short examples more rows than of long ones (Vaswani et al., 2017, section 5.1)."""

import dataclasses

import numpy as np
import tensorflow as tf

from data_pipelines.batches.grouping import Buckets, Grouping, longest, shorten_features
from data_pipelines.errors import UsageError

FILLED = -1  # a place of a group that is a row without weight; -2 - b says that bucket b has no such row


@dataclasses.dataclass(frozen=True)
class TokenBuckets(Grouping):
    """A batch holds examples of one bucket of lengths: `sizes[b]` rows, each as long as `lengths[b]`.

    As with `Buckets`, what a bucket leaves over is taken into the next longer one, the last batch of a window is filled up
    with rows of zero weight, and every example comes once an epoch. There are as many shapes as buckets.

    Attributes:
        lengths: of the buckets, rising; the last holds the longest example.
        sizes: rows of a batch of each bucket, falling; all multiples of replicas times micro-batches.
    """

    comes_at_once = False  # they differ in rows

    lengths: tuple[int, ...]
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"Batches of {', '.join(f'{s} x {n}' for s, n in zip(self.sizes, self.lengths, strict=True))} tokens"

    def groups(self, lengths: tf.Tensor, batch_size: int) -> tf.Tensor:
        table = tf.numpy_function(self.table, [lengths], tf.int64, stateful=False)
        return tf.ensure_shape(table, [None, self.sizes[0] + 1])

    def table(self, lengths: np.ndarray) -> np.ndarray:
        """Returns the places of the examples, int64 (G, W). The last column never holds one, so it always names the bucket."""
        bucket = np.searchsorted(self.lengths, lengths)
        rows, rest = [], np.zeros(0, np.int64)
        for number, size in enumerate(self.sizes):
            rest = np.concatenate([rest, np.flatnonzero(bucket == number)])
            whole = len(rest) // size * size
            taken, rest = rest[:whole], rest[whole:]
            if number == len(self.sizes) - 1 and len(rest):
                taken = np.concatenate([taken, rest, np.full(size - len(rest), FILLED)])
            rows.append(np.full((len(taken) // size, self.sizes[0] + 1), -2 - number))
            rows[-1][:, :size] = taken.reshape(-1, size)
        return np.concatenate(rows).astype(np.int64)

    def fit(self, features, index, batch_size):
        lengths, bucket = tf.constant(self.lengths), tf.cast(-2 - index[-1], tf.int32)
        # A transform may have made an example longer than it was; then the batch is of the length it needs.
        width = tf.gather(lengths, tf.maximum(bucket, tf.searchsorted(lengths, longest(features)[None])[0]))
        return shorten_features(features, width), tf.gather(self.sizes, bucket)

    def of_host(self, num_hosts: int) -> "TokenBuckets":
        return dataclasses.replace(self, sizes=tuple(size // num_hosts for size in self.sizes))

    def by_length(self, width: int) -> Buckets:
        return Buckets.up_to(width, self.lengths)

    def described(self, batch_size: int) -> str:
        return str(self)

    def computed(self, groups: np.ndarray, lengths: np.ndarray) -> int:
        return int(np.multiply(self.lengths, self.sizes)[-2 - groups[:, -1]].sum())


def token_buckets(lengths: tuple[int, ...], tokens_per_batch: int, shares: int = 1) -> TokenBuckets:
    """Buckets of these lengths, each with as many rows as `tokens_per_batch` holds.

    Args:
        shares: the equal parts into which a batch is cut: replicas times micro-batches.

    Raises:
        UsageError: the longest example does not fit once into each share.
    """
    if tokens_per_batch < lengths[-1] * shares:
        raise UsageError(
            f"--tokens_per_batch={tokens_per_batch}: must hold one example of {lengths[-1]} tokens for each of {shares} "
            f"device(s) or micro-batch(es), so at least {lengths[-1] * shares}."
        )
    return TokenBuckets(lengths, tuple(tokens_per_batch // (length * shares) * shares for length in lengths))
