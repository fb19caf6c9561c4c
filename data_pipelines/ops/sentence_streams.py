"""Frames two streams of sentences, one of which stands backwards, for language models of both directions."""

import tensorflow as tf

from data_pipelines.ops.compose import Op

IDS = "token_ids", "labels", "reversed_labels"
CHARACTERS = "character_ids", "reversed_character_ids"


def frame_streams(sequence_length: int) -> Op:
    """Cuts or fills rows to their length; where they end is known by their characters, since no word is without.

    Reads:  token_ids, labels, reversed_labels (B, N), character_ids, reversed_character_ids (B, N, 50), of rows of the layout
            `sentence_streams`.
    Writes: the same of `sequence_length` steps, int32, and padding_mask, label_weights (B, L).
    """

    def op(features):
        found = {name: features[name] for name in ("seed", "example_weights") if name in features}
        for name in (*IDS, *CHARACTERS):
            value = tf.cast(features[name], tf.int32)[:, :sequence_length]
            missing = sequence_length - tf.shape(value)[1]
            value = tf.pad(value, [[0, 0], [0, missing]] + [[0, 0]] * (value.shape.rank - 2))
            found[name] = tf.ensure_shape(value, [None, sequence_length, *value.shape[2:]])
        found["padding_mask"] = tf.reduce_any(found["character_ids"] > 0, axis=-1)
        found["label_weights"] = tf.cast(found["padding_mask"], tf.float32)
        return found

    return op
