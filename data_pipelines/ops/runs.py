"""Frames runs of text for models that name the next token."""

import tensorflow as tf

from data_pipelines.ops.compose import Op


def frame_run(sequence_length: int) -> Op:
    """Inputs and, one place ahead, labels (Radford et al., 2019). Every piece but the first of a run is a label once.

    Reads:  token_ids (B, N), segment_lengths (B, 2), of runs of at most `sequence_length` + 1 pieces.
    Writes: token_ids, labels, label_weights, padding_mask, all (B, L).
    """

    def op(features):
        features = dict(features)
        pieces = tf.reduce_sum(tf.cast(features.pop("segment_lengths"), tf.int32), axis=1, keepdims=True)  # (B, 1)
        token_ids = tf.cast(features["token_ids"], tf.int32)[:, : sequence_length + 1]
        missing = sequence_length + 1 - tf.shape(token_ids)[1]
        token_ids = tf.ensure_shape(tf.pad(token_ids, [[0, 0], [0, missing]]), [None, sequence_length + 1])
        has_next = tf.range(sequence_length)[None, :] < pieces - 1  # (B, L)
        features = {name: features[name] for name in ("seed", "example_weights") if name in features}
        features["token_ids"] = tf.where(has_next, token_ids[:, :-1], 0)
        features["labels"] = tf.where(has_next, token_ids[:, 1:], 0)
        features["label_weights"] = tf.cast(has_next, tf.float32)
        features["padding_mask"] = has_next
        return features

    return op
