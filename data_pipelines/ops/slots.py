"""The places of a sentence from which a word is missing, and words drawn by chance for them (context2vec)."""

import numpy as np
import tensorflow as tf

from data_pipelines.ops.compose import Op
from data_pipelines.ops.seeds import fold, take_seed
from data_pipelines.ops.windows import cumulate, draw_words


def word_slots(noise: np.ndarray, negatives: int = 32) -> Op:
    """Makes each word of a framed sentence the label of its place, and draws words for the sentence.

    Args:
        noise: the probability of each word as a negative, (V,).
        negatives: S.

    Reads:  token_ids, padding_mask, maskable (B, L), seed (B,), of framed rows.
    Writes: token_ids, padding_mask, labels, label_weights (B, L), the latter 0 at marks and padding; negative_ids (B, S).
    """
    cumulative = cumulate(noise)

    def op(features):
        features, seed = take_seed(features)
        found = {name: features[name] for name in ("seed", "example_weights") if name in features}
        token_ids, is_word = tf.cast(features["token_ids"], tf.int32), tf.cast(features["maskable"], tf.bool)
        return {
            **found, "token_ids": token_ids, "padding_mask": features["padding_mask"],
            "labels": tf.where(is_word, token_ids, 0), "label_weights": tf.cast(is_word, tf.float32),
            "negative_ids": draw_words(cumulative, fold(seed, 0), negatives),
        }  # fmt: skip

    return op
