"""Batches of one set of examples after another, of which the last one of an epoch is shorter."""

import dataclasses

import numpy as np
import tensorflow as tf

from data_pipelines.batches.grouping import Grouping, in_batches


@dataclasses.dataclass(frozen=True)
class Remainders(Grouping):
    """Examples as they come; the last batch of a window is filled up with rows of zero weight.

    So an epoch has each example once, a mean over the weights of a batch is that over its real rows, and all batches have one shape.
    Examples may be several sequences each.
    """

    def __str__(self) -> str:
        return "Batches with remainders"

    def groups(self, lengths: tf.Tensor, batch_size: int) -> tf.Tensor:
        return in_batches(tf.range(tf.shape(lengths)[0]), batch_size)

    def computed(self, groups: np.ndarray, lengths: np.ndarray) -> int:
        return groups.size * int(lengths.max())
