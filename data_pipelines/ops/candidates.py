"""Which candidates of a list are learnt from, drawn anew whenever the list is read."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.ops.compose import Op
from data_pipelines.ops.seeds import take_seed, uniform


def draw_candidates(
    arrays: Mapping[str, np.ndarray], relevance: Sequence[float], counts: Sequence[int], size: int
) -> Op:
    """Takes the relevant candidates of a list, the most relevant first and at most all but one place, and others at random.

    Where all are relevant they are drawn alike. Features without list_ids, such as those that score a network, stay.

    Args:
        arrays: the T candidates of all N lists side by side: {name: (T, L)}.
        relevance: of each candidate, (T,).
        counts: candidates of each list, (N,).
        size: C, how many are taken of a list, in their order; of a shorter one all.

    Reads:  list_ids (), seed ().
    Writes: the names of `arrays` (C, L), labels (C,), choice_weights (C,) 0 where a list has fewer; zeros there.
    """
    with tf.device("CPU"):  # made once, so that graphs refer to them and hold no copies
        candidates = {name: tf.constant(value) for name, value in arrays.items()}
        labels = tf.constant(relevance, tf.float32)
        lengths = tf.constant(counts, tf.int32)
        begins = tf.cumsum(lengths, exclusive=True)
    last = len(relevance) - 1

    def op(features):
        if "list_ids" not in features:
            return features
        features, seed = take_seed(features)
        first = tf.gather(begins, features["list_ids"])[:, None]  # (B, 1)
        count = tf.gather(lengths, features["list_ids"])[:, None]
        width = tf.maximum(tf.reduce_max(count), size)
        place = tf.range(width)[None, :]  # (1, W)
        there = place < count  # (B, W)
        known = tf.where(there, tf.gather(labels, tf.minimum(first + place, last)), -np.inf)
        shuffled = tf.argsort(tf.where(there, uniform(seed, width), 2.0), axis=1)
        by_relevance = tf.argsort(-tf.gather(known, shuffled, batch_dims=1), axis=1, stable=True)
        # Places, the most relevant first, those that are not there last.
        order = tf.gather(shuffled, by_relevance, batch_dims=1)
        relevant = tf.reduce_sum(tf.cast(known > 0, tf.int32), axis=1, keepdims=True)
        kept = tf.minimum(relevant, tf.where(relevant < count, size - 1, size))
        others = (place >= relevant) & (place < relevant + size - kept)
        taken = tf.where(((place < kept) | others) & there, order, width)
        taken = tf.ensure_shape(tf.sort(taken, axis=1)[:, :size], [None, size])  # (B, C)
        found = taken < width
        rows = tf.minimum(first + taken, last)
        drawn = {
            name: tf.where(found[:, :, None], tf.gather(value, rows), tf.zeros([], value.dtype))
            for name, value in candidates.items()
        }
        drawn["labels"] = tf.where(found, tf.gather(labels, rows), 0.0)
        return {**features, **drawn, "choice_weights": tf.cast(found, tf.float32)}

    return op
