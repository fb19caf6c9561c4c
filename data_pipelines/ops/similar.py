"""Replaces n-grams of words by similar words instead of masks, so that a network learns to correct (MacBERT; Cui et al., 2020, arXiv
2004.13922, section 3.2)."""

import numpy as np
import tensorflow as tf

from data_pipelines.ops.cloze import budget_of, draw, ordinary_ids, positions_of
from data_pipelines.ops.compose import Op
from data_pipelines.ops.groups import per_group, words_of
from data_pipelines.ops.seeds import fold, mix, take_seed, uniform
from data_pipelines.ops.spans import NEVER, choose_ngrams
from data_pipelines.text.similar_words import LONGEST, NO_WORDS, STEP, SimilarWords
from data_pipelines.text.vocabulary import Vocabulary

SHARES = (0.4, 0.3, 0.2, 0.1)  # of n-grams of 1, 2, 3 and 4 words
SIMILAR, RANDOM = 0.8, 0.1  # of the chosen words; the others stay


def replace_by_similar_words(
    vocabulary: Vocabulary,
    similar: SimilarWords = NO_WORDS,
    rate: float = 0.15,
    num_predictions: int = 20,
    units: str = "word_start",
) -> Op:
    """Chooses n-grams of whole words as ALBERT does, n with the probabilities of `SHARES`, and replaces each of their words by itself:
    80 % by a similar word, 10 % by a random one, 10 % stay.

    A similar word is drawn evenly from those of the word. Where it has none, and for the 10 %, a word of as many pieces is drawn from
    all that have vectors, and where there is none of so many, each piece from the vocabulary without special tokens.

    Reads:  token_ids, padding_mask, maskable, and `units`, all (B, L); seed (B,).
    Writes: token_ids (B, L); mask_positions, labels (B, P), ascending, then zeros; label_weights float32 (B, P).
    Drops: maskable.
    """
    drawable = ordinary_ids(vocabulary)
    keys = similar.keys()
    order = np.argsort(keys, kind="stable")
    firsts = np.searchsorted(similar.sizes, np.arange(LONGEST + 2)).astype(np.int32)  # of words of each size

    def op(features):
        features, seed = take_seed(features)
        token_ids, maskable = features["token_ids"], features.pop("maskable")
        budget = budget_of(features, rate, num_predictions)
        chosen = choose_ngrams(features[units], maskable, budget, fold(seed, 0), len(SHARES), SHARES)  # (B, L)
        word, sizes = words_of(features[units], maskable)  # (B, L), (B, W)
        place = places_in_words(word, maskable)  # (B, L)
        length = tf.shape(token_ids)[1]
        fate, which, other = (uniform(fold(seed, number), length) for number in (1, 2, 3))  # (B, W)
        pieces = draw(drawable, fold(seed, 4), length)  # (B, L), where nothing else fits
        if len(similar):
            known = find(keys_of(token_ids, place, word, maskable), keys[order], order)  # (B, W), -1 where unknown
            known = tf.where(sizes <= LONGEST, known, -1)
            count = tf.where(known >= 0, tf.gather(similar.counts, tf.maximum(known, 0)), 0)
            pick = tf.stack([tf.maximum(known, 0), tf.cast(which * tf.cast(count, tf.float32), tf.int32)], axis=-1)
            near = tf.where((fate < SIMILAR) & (count > 0), tf.gather_nd(similar.similar, pick), -1)  # (B, W)
            first, end = (tf.gather(firsts, tf.minimum(sizes, LONGEST) + more) for more in (0, 1))
            available = tf.where(sizes <= LONGEST, end - first, 0)
            drawn = first + tf.cast(other * tf.cast(available, tf.float32), tf.int32)
            new = tf.where(near >= 0, near, tf.where(available > 0, drawn, -1))  # (B, W)
            new = tf.gather(new, word, batch_dims=1)  # (B, L)
            at = tf.stack([tf.maximum(new, 0), tf.minimum(place, LONGEST - 1)], axis=-1)
            pieces = tf.where(new >= 0, tf.gather_nd(similar.pieces, at), pieces)
        changes = tf.gather(fate < SIMILAR + RANDOM, word, batch_dims=1)
        positions, weights = positions_of(chosen, num_predictions)
        return {
            **features,
            "token_ids": tf.where(chosen & changes, pieces, token_ids),
            "mask_positions": positions,
            "labels": tf.where(weights > 0, tf.gather(token_ids, positions, batch_dims=1), 0),
            "label_weights": weights,
        }

    return op


def places_in_words(word, maskable) -> tf.Tensor:
    """Returns the place of each piece in its word, from 0: int (B, L); meaningless for special tokens."""
    rank = tf.cumsum(tf.cast(maskable, tf.int32), axis=1) - 1
    first = per_group(tf.math.unsorted_segment_min, tf.where(maskable, rank, NEVER), word)
    return tf.maximum(rank - tf.gather(first, word, batch_dims=1), 0)


def keys_of(token_ids, place, word, maskable) -> tf.Tensor:
    """Returns the key of each word of a text, as `SimilarWords.keys` has it: int64 (B, W)."""
    numbers = tf.cast(tf.cast(token_ids, tf.int64) * LONGEST + tf.cast(place, tf.int64) + 1, tf.uint64)
    parts = tf.bitcast(mix(numbers * tf.constant(STEP, tf.uint64)), tf.int64)
    return per_group(tf.math.unsorted_segment_sum, tf.where(maskable, parts, 0), word)


def find(wanted, keys: np.ndarray, order: np.ndarray) -> tf.Tensor:
    """Returns the place of each key, int32 of the same shape; -1 where it is none of `keys`.

    Args:
        keys: int64 (N,), ascending.
        order: (N,), the place of each of them.
    """
    flat = tf.reshape(wanted, [-1])
    near = tf.minimum(tf.searchsorted(tf.constant(keys), flat), len(keys) - 1)
    there = tf.equal(tf.gather(keys, near), flat)
    found = tf.where(there, tf.gather(order.astype(np.int32), near), -1)
    return tf.reshape(found, tf.shape(wanted))
