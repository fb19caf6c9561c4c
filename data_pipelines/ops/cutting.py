"""Cuts records of long rows into shorter rows, for trainings that begin with these."""

import tensorflow as tf

from data_pipelines.ops.compose import Op
from data_pipelines.ops.framing import STARTS
from data_pipelines.ops.seeds import fold, take_seed, uniform


def cut_runs(size: int, stride: int, count: int) -> Op:
    """Returns each record of running text as `count` examples of up to `size` tokens, of which one begins `stride` behind the
    other.

    The first one begins at a place that is drawn, so that over the epochs every token of a longer record comes. Examples for which a
    record is too short have no weight.

    Reads:  token_ids (B, N) and those of `STARTS` that are there, segment_lengths (B, S), seed, example_weights (B,).
    Writes: the same of B * count examples; the N of these is `size`. A cut may fall inside a word: its rest counts as one.
    """

    def op(features):
        features, seed = take_seed(features)
        total = tf.reduce_sum(tf.cast(features["segment_lengths"], tf.int32), axis=1, keepdims=True)  # (B, 1)
        spare = tf.maximum(total - stride * (count - 1) - size, 0)
        first = tf.cast(uniform(seed, 1) * tf.cast(spare + 1, tf.float32), tf.int32)  # (B, 1)
        begins = first + stride * tf.range(count)[None, :]  # (B, count)
        lengths = tf.clip_by_value(total - begins, 0, size)
        inside = tf.range(size) < lengths[:, :, None]  # (B, count, size)
        source = tf.where(inside, begins[:, :, None] + tf.range(size), 0)

        def cut(values):
            pieces = tf.where(inside, tf.gather(values, source, batch_dims=1), tf.zeros([], values.dtype))
            return tf.reshape(pieces, [-1, size])

        alike = ("token_ids", "segment_lengths", "seed", *STARTS)
        rows = {name: tf.repeat(value, count, axis=0) for name, value in features.items() if name not in alike}
        rows["token_ids"] = cut(features["token_ids"])
        rows |= {name: _opened(cut(features[name])) for name in STARTS if name in features}
        lengths = tf.reshape(lengths, [-1, 1])
        others = features["segment_lengths"].shape[1] - 1
        rows["segment_lengths"] = tf.cast(tf.pad(lengths, [[0, 0], [0, others]]), features["segment_lengths"].dtype)
        rows["seed"] = tf.reshape(fold(features["seed"][:, None], tf.range(count)[None, :]), [-1])
        overlap = size - stride if stride < size else 0
        rows["example_weights"] *= tf.cast(lengths[:, 0] > overlap, tf.float32)
        return rows

    return op


def cut_pairs(size: int) -> Op:
    """Returns two segments of `size` tokens together: the end of the first one and the beginning of the second, so that what
    stands side by side stays there. Of segments that are swapped it is the other way round, since the text went from the second
    to the first; else their order could be told from what is missing between them. A segment that is shorter than its half
    leaves the room to the other one; where there is no second one, a part of the first one, from a place that is drawn.

    Reads and writes: token_ids (B, N) and those of `STARTS` that are there, segment_lengths (B, 2), seed; the N written is `size`.
    Reads: sentence_order_labels (B,), where they are there.
    """

    def op(features):
        features, seed = take_seed(features)
        lengths = tf.cast(features["segment_lengths"], tf.int32)  # (B, 2)
        first, second = lengths[:, :1], lengths[:, 1:2]
        keep_first = tf.minimum(first, tf.maximum(size // 2, size - second))
        keep_second = tf.minimum(second, size - keep_first)
        drawn = tf.cast(uniform(seed, 1) * tf.cast(first - keep_first + 1, tf.float32), tf.int32)
        begin, follows = tf.where(second > 0, first - keep_first, drawn), first
        if "sentence_order_labels" in features:
            swapped = tf.cast(features["sentence_order_labels"], tf.bool)[:, None] & (second > 0)
            begin, follows = tf.where(swapped, 0, begin), tf.where(swapped, first + second - keep_second, follows)
        place = tf.range(size)[None, :]
        inside, in_second = place < keep_first + keep_second, place >= keep_first
        source = tf.where(inside, place + tf.where(in_second, follows - keep_first, begin), 0)

        def cut(values):
            return tf.where(inside, tf.gather(values, source, batch_dims=1), tf.zeros([], values.dtype))

        cut_features = {name: cut(features[name]) for name in ("token_ids", *STARTS) if name in features}
        for name in cut_features.keys() - {"token_ids"}:
            opens = tf.cast(inside & (place == keep_first), cut_features[name].dtype)
            cut_features[name] = tf.maximum(_opened(cut_features[name]), opens)
        kept = tf.concat([keep_first, keep_second], axis=1)
        return {**features, **cut_features, "segment_lengths": tf.cast(kept, features["segment_lengths"].dtype)}

    return op


def without_lost(features):
    """Takes the weight of labels from rows without weight, for which a record was too short."""
    if "label_weights" not in features:
        return features
    return {**features, "label_weights": features["label_weights"] * features["example_weights"][:, None]}


def _opened(starts: tf.Tensor) -> tf.Tensor:
    """Returns unit starts (B, N) of which the first one of each row is 1."""
    return tf.concat([tf.ones_like(starts[:, :1]), starts[:, 1:]], axis=1)
