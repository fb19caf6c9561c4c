"""Frames paragraphs, records of `--packing=paragraph`, for the tasks of ERNIE 2.0 (Sun et al., 2020, arXiv 1907.12412, section 3.2).

A record holds the segments A and B, which stand side by side, and C, from farther away, which may stand in place of B.
"""

import itertools
import math

import numpy as np
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.compose import Op
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.seeds import fold, take_seed, uniform
from data_pipelines.text.vocabulary import CLS, PAD, SEP, Vocabulary

MOST_PARTS = 4  # of a paragraph; there is a segment embedding for each


def permutations(most_parts: int) -> list[tuple[int, ...]]:
    """Returns which part stands at each place, by class: all orders of one part, then of two, up to `most_parts`, each in
    lexicographic order.

    There are 1! + 2! + ... + most_parts! of them.

    Raises:
        UsageError: `most_parts` is below 1.
    """
    if most_parts < 1:
        raise UsageError(f"Sentence reordering: at least 1 part. Received: {most_parts}.")
    return [order for count in range(1, most_parts + 1) for order in itertools.permutations(range(count))]


def of_task(task: int) -> Op:
    """Writes task_ids int32 (B, L), all `task`."""
    return lambda features: {**features, "task_ids": tf.fill(tf.shape(features["token_ids"]), task)}


def frame_paragraph(vocabulary: Vocabulary, sequence_length: int) -> Op:
    """Returns `[CLS] A B [SEP]`. Reads and writes as `framing.frame_pair`, of three segments."""
    frame = frame_pair(vocabulary, sequence_length)

    def op(features):
        lengths = features["segment_lengths"]
        whole = tf.reduce_sum(lengths[:, :2], axis=1, keepdims=True)
        return frame({**features, "segment_lengths": tf.concat([whole, tf.zeros_like(whole)], axis=1)})

    return op


def frame_distance(vocabulary: Vocabulary, sequence_length: int) -> Op:
    """Returns `[CLS] A [SEP] B [SEP]` in a third of the cases, which are drawn, else `[CLS] A [SEP] C [SEP]`.

    Reads:  as `framing.frame_pair`, of three segments; distance_labels (B,), 1 or 2 for C; seed, example_weights (B,).
    Writes: as `framing.frame_pair`; distance_labels, 0 for B; example_weights, 0 where there is no B or no C to choose from.
    """
    frame = frame_pair(vocabulary, sequence_length)

    def op(features):
        features, seed = take_seed(features)
        lengths = tf.cast(features["segment_lengths"], tf.int32)  # (B, 3)
        follows = uniform(seed, 1)[:, 0] < 1 / 3  # (B,)
        first, second, third = (lengths[:, i, None] for i in range(3))
        skipped = tf.where(follows[:, None], 0, second)  # (B, 1)
        place = tf.range(tf.shape(features["token_ids"])[1])[None, :]
        source = tf.minimum(tf.where(place < first, place, place + skipped), tf.shape(features["token_ids"])[1] - 1)
        moved = {
            name: tf.gather(value, source, batch_dims=1)
            for name, value in features.items()
            if value.shape.rank == 2 and name != "segment_lengths"
        }
        kept = tf.concat([first, tf.where(follows[:, None], second, third)], axis=1)
        label = features["distance_labels"]
        asked = tf.cast((second > 0) & (third > 0), tf.float32)[:, 0]
        return frame({
            **features, **moved, "segment_lengths": kept, "distance_labels": tf.where(follows, tf.zeros_like(label), label),
            "example_weights": features["example_weights"] * asked,
        })  # fmt: skip

    return op


def frame_reordered(vocabulary: Vocabulary, sequence_length: int, most_parts: int = 3) -> Op:
    """Returns `[CLS] P [SEP] Q [SEP] R [SEP]`: the paragraph A B, cut at ends of sentences into 1 to `most_parts` parts, in a
    drawn order.

    The number of parts is uniform, as far as there are sentences, and so is the order. Each part is cut to its share of the
    row. The paper says neither `most_parts` nor how parts are joined; segments 0 to 3 are what a table of four rows is for.

    Reads:  token_ids, sentence_start (B, N), segment_lengths (B, 3), seed (B,).
    Writes: token_ids, segment_ids, padding_mask (B, L); reordering_labels (B,), the place of the order in `permutations`.

    Raises:
        UsageError: `most_parts` is not 1 to 4, or a row cannot hold so many.
    """
    if not 1 <= most_parts <= MOST_PARTS:
        raise UsageError(f"Sentence reordering: 1 to {MOST_PARTS} parts. Received: {most_parts}.")
    orders = permutations(most_parts)
    if sequence_length < 1 + 2 * most_parts:
        raise UsageError(f"Sentence reordering: rows of {sequence_length} cannot hold {most_parts} parts.")
    table = np.array([[*order, *range(len(order), most_parts)] for order in orders], np.int32)  # (K, P)
    factorials = np.array([math.factorial(n) for n in range(most_parts + 1)])
    before = np.cumsum(factorials) - factorials - 1  # orders of fewer parts; that of none is no class
    before[0] = 0
    shares = np.array([0] + [(sequence_length - 1 - n) // n for n in range(1, most_parts + 1)], np.int32)
    cls, sep, pad = vocabulary[CLS], vocabulary[SEP], vocabulary[PAD]

    def op(features):
        features, seed = take_seed(features)
        total = tf.reduce_sum(tf.cast(features["segment_lengths"][:, :2], tf.int32), axis=1)  # (B,)
        count, part = _cut(features["sentence_start"], total, most_parts, seed)
        sizes = tf.reduce_sum(tf.one_hot(part, most_parts, dtype=tf.int32), axis=1)  # (B, P)
        begins = tf.cumsum(sizes, axis=1, exclusive=True)
        sizes = tf.minimum(sizes, tf.gather(shares, count)[:, None])
        ways = tf.gather(tf.constant(factorials, tf.int32), count)
        drawn = tf.cast(uniform(fold(seed, 2), 1)[:, 0] * tf.cast(ways, tf.float32), tf.int32)
        label = tf.gather(tf.constant(before, tf.int32), count) + tf.minimum(drawn, ways - 1)
        order = tf.gather(table, label)  # (B, P)
        sizes, begins = (tf.gather(values, order, batch_dims=1) for values in (sizes, begins))

        place = tf.range(sequence_length)[None, :]  # (1, L)
        source, inside, segment, begin = tf.zeros_like(place), tf.zeros_like(place, tf.bool), tf.zeros_like(place), 1
        for slot in range(most_parts):
            size, there = sizes[:, slot, None], slot < count[:, None]  # (B, 1)
            here = there & (place >= begin) & (place < begin + size)
            source = tf.where(here, begins[:, slot, None] + place - begin, source)
            inside |= here
            segment = tf.where(there & (place >= begin), slot, segment) if slot else segment
            begin = begin + tf.where(there, size + 1, 0)
        real = place < begin
        ids = tf.gather(tf.cast(features["token_ids"], tf.int32), source, batch_dims=1)
        ids = tf.where(inside, ids, tf.where(place == 0, cls, tf.where(real, sep, pad)))
        text = {"token_ids": ids, "segment_ids": tf.where(real, segment, 0), "padding_mask": real}
        kept = {
            name: features[name] for name in ("seed", "example_weights", "progress", "batch_seed") if name in features
        }
        return {**kept, **text, "reordering_labels": label}

    return op


def _cut(starts: tf.Tensor, total: tf.Tensor, most_parts: int, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how many parts a paragraph has, int32 (B,), and the part of each token, int32 (B, N), -1 behind the end.

    Args:
        starts: (B, N), 1 where a sentence begins.
        total: int32 (B,), tokens of the paragraph.
    """
    width = tf.shape(starts)[1]
    place = tf.range(width)[None, :]
    real = place < total[:, None]
    possible = (starts > 0) & (place > 0) & real
    drawn = 1 + tf.cast(uniform(fold(seed, 0), 1)[:, 0] * most_parts, tf.int32)
    count = tf.minimum(drawn, 1 + tf.reduce_sum(tf.cast(possible, tf.int32), axis=1))
    keys = tf.where(possible, uniform(fold(seed, 1), width), 2.0)
    rank = tf.argsort(tf.argsort(keys, axis=1, stable=True), axis=1)
    cuts = possible & (rank < count[:, None] - 1)
    return count, tf.where(real, tf.cumsum(tf.cast(cuts, tf.int32), axis=1), -1)
