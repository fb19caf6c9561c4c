"""Batches of one set of examples after another, of which the last one of an epoch is shorter."""

import dataclasses

import numpy as np
import tensorflow as tf

from data_pipelines.batches.grouping import filled


@dataclasses.dataclass(frozen=True)
class Remainders:
    """Examples as they come; the last batch of a window is filled up with rows of zero weight.

    So an epoch has each example once, a mean over the weights of a batch is that over its real rows, and all batches have one shape.
    Examples may be several sequences each.
    """

    def __str__(self) -> str:
        return "Batches with remainders"

    def groups(self, lengths: tf.Tensor, batch_size: int) -> tf.Tensor:
        places = tf.range(tf.shape(lengths)[0], dtype=tf.int64)
        return tf.reshape(tf.pad(places, [[0, -tf.size(places) % batch_size]], constant_values=-1), [-1, batch_size])

    def batches(self, stream, prepare, batch_size, per_batch):
        return filled(stream, prepare, batch_size, per_batch)

    def of_host(self, num_hosts: int) -> "Remainders":
        return self

    def described(self, batch_size: int) -> str:
        return f"{self}, {batch_size} rows"

    def computed(self, groups: np.ndarray, lengths: np.ndarray) -> int:
        return groups.size * int(lengths.max())
