"""Frames records of co-occurrences: pairs of words, and how much each counts."""

import tensorflow as tf


def frame_pairs():
    """Returns names the words of pairs as a text of their own too, as all networks read it.

    Reads:  center_ids, context_ids, pair_weights (B, P).
    Writes: center_ids, context_ids, pair_weights (B, P); token_ids (B, P), the centers; padding_mask (B, P), where there is a pair.
    """

    def op(features):
        centers = tf.cast(features["center_ids"], tf.int32)
        contexts = tf.cast(features["context_ids"], tf.int32)
        pairs = {"center_ids": centers, "context_ids": contexts, "token_ids": centers}
        return {**features, **pairs, "padding_mask": features["pair_weights"] > 0}

    return op
