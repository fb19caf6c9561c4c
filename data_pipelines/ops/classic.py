"""Records in the layout of Google's `create_pretraining_data.py`, under our names."""

import tensorflow as tf

from data_pipelines.ops.compose import Op

_NAMES = {
    "input_ids": "token_ids",
    "segment_ids": "segment_ids",
    "masked_lm_positions": "mask_positions",
    "masked_lm_ids": "labels",
    "masked_lm_weights": "label_weights",
}


def rename_classic(label: str = "next_sentence_labels") -> Op:
    """Reads: the seven features of Google's records. Writes: the same values under our names, int32 and bool.

    Args:
        label: our name of what these records call `next_sentence_labels`, which ALBERT's use for the order of segments.
    """

    def op(features):
        renamed = {new: features[old] for old, new in _NAMES.items()}
        renamed = {name: v if v.dtype == tf.float32 else tf.cast(v, tf.int32) for name, v in renamed.items()}
        renamed["padding_mask"] = features["input_mask"] > 0
        renamed[label] = tf.reshape(tf.cast(features["next_sentence_labels"], tf.int32), [-1])
        return renamed | {name: features[name] for name in ("example_weights", "seed") if name in features}

    return op
