"""Pairs of words that stand near each other, for skip-gram with negative sampling (Mikolov et al., 2013)."""

import math

import numpy as np
import tensorflow as tf

from data_pipelines.ops.compose import Op
from data_pipelines.ops.seeds import fold, take_seed, uniform


def keep_probabilities(counts: np.ndarray, sample: float = 1e-3) -> np.ndarray:
    """Returns how often each word is kept: min(1, (sqrt(f / s) + 1) * s / f), f its share of the text (word2vec.c). float64
    (V,)"""
    threshold = sample * max(1, counts.sum())
    counts = np.maximum(counts, 1e-9)
    return np.minimum(1.0, (np.sqrt(counts / threshold) + 1.0) * threshold / counts) if sample else np.ones(len(counts))


def noise_distribution(counts: np.ndarray, exponent: float = 0.75) -> np.ndarray:
    """Returns the probability of each word as a negative, counts ** exponent; words that never occur have none. float64 (V,)"""
    weights = np.where(counts > 0, np.maximum(counts, 1.0) ** exponent, 0.0)
    return weights / max(weights.sum(), 1e-12)


def num_slots(sequence_length: int, window: int) -> int:
    """Pairs that an example has room for: four standard deviations above the mean without subsampling."""
    deviation = 2.0 * math.sqrt(sequence_length * (window**2 - 1) / 12.0)
    return min(2 * sequence_length * window, math.ceil(sequence_length * (window + 1) + 4.0 * deviation))


def skip_gram_pairs(
    sequence_length: int, keep: np.ndarray, noise: np.ndarray, window: int = 5, negatives: int = 5, ends: tuple = ()
) -> Op:  # fmt: skip
    """Centers, their contexts, and negatives, anew in every epoch.

    Rare words stay, frequent ones are left out before windows are formed, so these reach further; a window has 1 to `window`
    words to each side and does not reach across an end of text.

    Args:
        keep: of `keep_probabilities`; 0 for what is no word.
        noise: of `noise_distribution`.
        negatives: K, drawn for each pair.
        ends: ids at which a text ends.

    Reads:  token_ids (B, N), segment_lengths (B, 2), seed (B,), of runs of at most `sequence_length` + 1 pieces.
    Writes: token_ids, padding_mask (B, L), the text that was read; center_ids, context_ids (B, P), pair_weights (B, P), 0 where
            a slot is unused; negative_ids (B, P, K).
    """
    length, slots = sequence_length, num_slots(sequence_length, window)
    cumulative = np.cumsum(noise)
    cumulative[-1] = max(cumulative[-1], 1.0)
    offsets = np.array([d for d in range(-window, window + 1) if d], np.int32)  # (2 c,)

    def op(features):
        features, seed = take_seed(features)
        token_ids, real = _text(features, length)
        words, parts, count = _subsampled(token_ids, real, uniform(fold(seed, 0), length))
        reach = 1 + tf.cast(uniform(fold(seed, 1), length) * window, tf.int32)  # (B, L)
        places = tf.range(length)[:, None] + offsets  # (L, 2 c)
        inside = (places >= 0) & (places < count[:, None, None]) & (tf.range(length) < count[:, None])[:, :, None]
        nearby = tf.clip_by_value(places, 0, length - 1)
        inside &= tf.abs(offsets) <= reach[:, :, None]
        inside &= tf.gather(parts, nearby, axis=1) == parts[:, :, None]  # (B, L, 2 c)
        flat = tf.reshape(inside, [-1, length * len(offsets)])
        contexts = tf.reshape(tf.gather(words, nearby, axis=1), tf.shape(flat))
        centers = tf.repeat(words, len(offsets), axis=1)
        number = tf.minimum(tf.reduce_sum(tf.cast(flat, tf.int32), axis=1), slots)
        drawn = _drawn(cumulative, fold(seed, 2), slots * negatives)
        features = {name: features[name] for name in ("seed", "example_weights") if name in features}
        return {
            **features, "token_ids": token_ids, "padding_mask": real,
            "center_ids": _left(centers, flat, slots), "context_ids": _left(contexts, flat, slots),
            "pair_weights": tf.cast(tf.range(slots) < number[:, None], tf.float32),
            "negative_ids": tf.reshape(drawn, [-1, slots, negatives]),
        }  # fmt: skip

    def _subsampled(token_ids, real, draws):
        """Returns the words that stay, moved to the left, the texts in which they stand, both (B, L), and how many they are,
        (B,)."""
        stay = real & (draws < tf.gather(tf.constant(keep, tf.float32), token_ids))
        ended = tf.reduce_any(token_ids[..., None] == tf.constant(ends, tf.int32), axis=-1) & real
        parts = tf.cumsum(tf.cast(ended, tf.int32), axis=1)
        return (
            _left(token_ids, stay, length),
            _left(parts, stay, length),
            tf.reduce_sum(tf.cast(stay, tf.int32), axis=1),
        )

    return op


def _text(features, length: int):
    """Returns the pieces of a run but for the last, with which the next run begins: (B, L), and which are real."""
    pieces = tf.reduce_sum(tf.cast(features["segment_lengths"], tf.int32), axis=1, keepdims=True)  # (B, 1)
    token_ids = tf.cast(features["token_ids"], tf.int32)[:, :length]
    token_ids = tf.pad(token_ids, [[0, 0], [0, length - tf.shape(token_ids)[1]]])
    real = tf.range(length)[None, :] < pieces - 1
    return tf.ensure_shape(tf.where(real, token_ids, 0), [None, length]), tf.ensure_shape(real, [None, length])


def _left(values, chosen, width: int):
    """Returns the chosen values of each row, (B, N), at its left; at most `width` of them, and zeros."""
    return tf.ensure_shape(tf.ragged.boolean_mask(values, chosen).to_tensor(0, shape=[None, width]), [None, width])


def _drawn(cumulative: np.ndarray, seed, count: int):
    """Returns int32 (B, count), drawn by inversion. 53 random bits, since 24 would never name the rarest of a million words."""
    bits = fold(seed[:, None], tf.range(count, dtype=tf.int64)[None, :])
    draws = tf.cast(tf.bitwise.right_shift(bits, tf.constant(11, tf.uint64)), tf.float64) * 2.0**-53
    found = tf.searchsorted(tf.constant(cumulative), tf.reshape(draws, [-1]), side="right")
    return tf.reshape(tf.minimum(found, len(cumulative) - 1), tf.shape(bits))
