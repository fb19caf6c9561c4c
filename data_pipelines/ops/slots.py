"""The places of a sentence from which a word is missing, and words drawn by chance for them (context2vec, SENNA)."""

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


def other_words(noise: np.ndarray) -> Op:
    """Draws another word for each place of a framed sentence.

    Args:
        noise: the probability of each word, (V,).

    Reads:  token_ids, padding_mask, maskable (B, L), seed (B,), of framed rows.
    Writes: token_ids, padding_mask, other_ids, label_weights (B, L), the latter 0 at marks and padding.
    """
    cumulative = cumulate(noise)

    def op(features):
        features, seed = take_seed(features)
        found = {n: features[n] for n in ("seed", "example_weights", "padding_mask") if n in features}
        token_ids = tf.cast(features["token_ids"], tf.int32)
        drawn = draw_words(cumulative, fold(seed, 0), token_ids.shape[1])
        return {
            **found, "token_ids": token_ids, "label_weights": tf.cast(features["maskable"], tf.float32),
            "other_ids": tf.ensure_shape(drawn, token_ids.shape),
        }  # fmt: skip

    return op


def rare_as_unknown(known: int, unknown: int | None) -> Op:
    """Puts the unknown word in the place of all but the first words of a vocabulary, which stand in the order of their counts.

    Args:
        known: how many ids stay.
        unknown: the id of the unknown word; None where there is none, and all ids stay.

    Reads and writes: token_ids (B, L).
    """

    def op(features):
        token_ids = tf.cast(features["token_ids"], tf.int32)
        return {
            **features,
            "token_ids": token_ids if unknown is None else tf.where(token_ids < known, token_ids, unknown),
        }

    return op
