"""What all masked language models share: a budget, replacing the hidden tokens, and the positions to predict."""

import numpy as np
import tensorflow as tf

from data_pipelines.ops.seeds import fold, uniform
from data_pipelines.text.vocabulary import SPECIAL_TOKENS, Vocabulary


def ordinary_ids(vocabulary: Vocabulary) -> np.ndarray:
    """Returns the ids that a random replacement may draw: all but the special tokens, int32."""
    special = {vocabulary[token] for token in SPECIAL_TOKENS}
    return np.array([i for i in range(len(vocabulary)) if i not in special], np.int32)


def budget_of(features, rate: float, num_predictions: int, rounding=tf.round) -> tf.Tensor:
    """Returns how many tokens to hide, int32 (B,): min(num_predictions, max(1, round(rate * length))), special tokens counted.

    In float64, and with ties to even, as Python computes round(rate * length).
    """
    length = tf.reduce_sum(tf.cast(features["padding_mask"], tf.int32), axis=1)
    wanted = tf.cast(rounding(tf.cast(length, tf.float64) * rate), tf.int32)
    return tf.minimum(num_predictions, tf.maximum(1, wanted))


def stochastic_budget_of(maskable: tf.Tensor, rate: float, num_predictions: int, seed: tf.Tensor) -> tf.Tensor:
    """Returns how many tokens to hide, int32 (B,): min(num_predictions, floor(rate * n + u)), with u drawn evenly from [0, 1).

    On average rate * n, also where n is small; such rows may hide nothing.

    Args:
        maskable: bool (B, L), n True values a row.
        seed: uint64 (B,).
    """
    count = tf.reduce_sum(tf.cast(maskable, tf.float64), axis=1)  # (B,)
    drawn = tf.cast(uniform(seed, 1)[:, 0], tf.float64)
    return tf.minimum(num_predictions, tf.cast(tf.floor(count * rate + drawn), tf.int32))


def hide(features, chosen, num_predictions: int, mask_id: int, drawable, seed, together=None) -> dict:
    """Replaces the chosen tokens, 80 % by `mask_id`, 10 % not, 10 % by a random token, and says what stood there.

    Writes: token_ids (B, L); mask_positions, labels (B, P), ascending, then zeros; label_weights float32 (B, P).
    Drops: maskable.

    Args:
        chosen: bool (B, L), at most P True values a row.
        drawable: the ids that a random token may be, or how many: all below.
        together: int (B, L) below L; tokens of one number share one of the three fates. None: each has its own.
    """
    token_ids = features["token_ids"]
    features = {name: value for name, value in features.items() if name != "maskable"}
    positions, weights = positions_of(chosen, num_predictions)
    features["mask_positions"] = positions
    features["labels"] = tf.where(weights > 0, tf.gather(token_ids, positions, batch_dims=1), 0)
    features["label_weights"] = weights
    features["token_ids"] = replace(token_ids, chosen, mask_id, drawable, seed, together)
    return features


def positions_of(chosen: tf.Tensor, num_predictions: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the places of the first P True values in each row, ascending, then zeros; and weights 1 where one is."""
    length = tf.shape(chosen)[1]
    early = tf.where(chosen, length - tf.range(length)[None, :], 0)
    found = tf.minimum(num_predictions, length)
    values, positions = tf.math.top_k(early, found)
    missing = [[0, 0], [0, num_predictions - found]]
    used = tf.ensure_shape(tf.pad(values > 0, missing), (None, num_predictions))
    return tf.where(used, tf.pad(positions, missing), 0), tf.cast(used, tf.float32)


def draw(drawable, seed: tf.Tensor, count) -> tf.Tensor:
    """Returns random ids, int32 (B, count), out of `drawable`, as `hide` has it."""
    if isinstance(drawable, int):
        return tf.cast(uniform(seed, count) * drawable, tf.int32)
    return tf.gather(tf.constant(drawable), tf.cast(uniform(seed, count) * len(drawable), tf.int32))


def replace(token_ids, chosen, mask_id: int, drawable, seed, together=None, rates=(0.8, 0.1)) -> tf.Tensor:
    """Returns the first step of `hide`. `rates` are the shares of `mask_id` and of random tokens; the rest stays."""
    length = tf.shape(token_ids)[1]
    fate = uniform(fold(seed, 0), length)
    if together is not None:
        fate = tf.gather(fate, together, batch_dims=1)
    drawn = draw(drawable, fold(seed, 1), length)
    masked, random = rates
    new = tf.where(fate < masked, mask_id, tf.where(fate < 1 - random, token_ids, drawn))
    return tf.where(chosen, new, token_ids)
