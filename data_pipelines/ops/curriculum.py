"""One op after another, as the training goes on."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.compose import Op


def in_stages(ops: Sequence[Op], shares: Sequence[float]) -> Op:
    """Returns the first op for the first share of the training, then the second one, and so on.

    Where the training is over, as for held-out text, the last one holds.

    Reads:  progress (B,), the same number in all rows, and what the ops read.
    Writes: what the ops write; all must write the same features, of the same types.

    Args:
        shares: of the steps, relative to one another.

    Raises:
        UsageError: there are other numbers of shares than of ops, or one is not above 0.
    """
    if len(ops) != len(shares) or not all(share > 0 for share in shares):
        raise UsageError(f"Expected {len(ops)} shares of a training, each above 0. Received: {tuple(shares)}.")
    bounds = (np.cumsum(shares) / np.sum(shares)).astype(np.float32)[:-1]

    def op(features):
        progress = tf.reduce_max(features["progress"])
        stage = tf.reduce_sum(tf.cast(progress >= bounds, tf.int32))
        return tf.switch_case(stage, [lambda each=each: each(features) for each in ops])

    return op
