"""Corruptions for denoising objectives, vectorised over a batch and drawn from `seed`."""

import tensorflow as tf

from data_pipelines.ops.compose import Op
from data_pipelines.ops.seeds import fold, take_seed, uniform


def mask_whole_words(
    mask_id: int, vocabulary_size: int, rate: float = 0.15, num_predictions: int = 20, units: str | None = "word_start"
) -> Op:
    """Hides random whole words behind `mask_id` (Google's whole-word masking; Cui et al., 2019, section 2).

    Words are taken in random order until min(num_predictions, max(1, round(rate * length))) tokens are hidden, where
    the length counts special tokens; a word that would exceed this is skipped. Of the hidden tokens 80 % become
    `mask_id`, 10 % stay, and 10 % are drawn from the whole vocabulary, each for itself.

    Reads:  token_ids, padding_mask, maskable, and word_start, all (B, L); seed (B,).
    Writes: token_ids (B, L); mask_positions, labels (B, P), ascending, then zeros; label_weights float32 (B, P).

    Args:
        units: the feature that is 1 where a unit of masking opens; None hides single tokens.
    """

    def op(features):
        features, seed = take_seed(features)
        token_ids, maskable = features["token_ids"], features["maskable"]
        starts = tf.ones_like(token_ids) if units is None else features[units]
        length = tf.reduce_sum(tf.cast(features["padding_mask"], tf.int32), axis=1)  # (B,)
        # In float64, and with ties to even, as Python computes round(rate * length).
        wanted = tf.cast(tf.round(tf.cast(length, tf.float64) * rate), tf.int32)
        budget = tf.minimum(num_predictions, tf.maximum(1, wanted))  # (B,)
        chosen = choose_words(starts, maskable, budget, fold(seed, 0))  # (B, L)
        positions, weights = _positions_of(chosen, num_predictions)
        features["mask_positions"] = positions
        features["labels"] = tf.where(weights > 0, tf.gather(token_ids, positions, batch_dims=1), 0)
        features["label_weights"] = weights
        features["token_ids"] = _replace(token_ids, chosen, mask_id, vocabulary_size, fold(seed, 1))
        del features["maskable"]
        return features

    return op


def mask_tokens(mask_id: int, vocabulary_size: int, rate: float = 0.15, num_predictions: int = 20) -> Op:
    """Hides random single tokens (Devlin et al., 2018, section 3.1); reads and writes as `mask_whole_words`."""
    return mask_whole_words(mask_id, vocabulary_size, rate, num_predictions, units=None)


def choose_words(starts: tf.Tensor, maskable: tf.Tensor, budget: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws words in random order until `budget` tokens are taken; a word that would exceed it is skipped.

    Equal to walking through the shuffled words one by one, but in a few passes over all of them: each takes the words
    that fit by cumulative size, and rejects the first that does not.

    Args:
        starts: int (B, L), 1 where a word opens.
        maskable: bool (B, L), False on special tokens and padding, which never count.
        budget: int (B,).
        seed: uint64 (B,).

    Returns:
        bool (B, L), True on the tokens of chosen words.
    """
    batch, length = tf.shape(starts)[0], tf.shape(starts)[1]
    word = tf.maximum(tf.cumsum(starts * tf.cast(maskable, tf.int32), axis=1) - 1, 0)  # (B, L)
    flat = word + tf.range(batch)[:, None] * length
    sizes = tf.math.unsorted_segment_sum(
        tf.reshape(tf.cast(maskable, tf.int32), [-1]), tf.reshape(flat, [-1]), batch * length
    )
    sizes = tf.reshape(sizes, [batch, length])  # (B, W): tokens of each word, 0 beyond the last
    order = tf.argsort(tf.where(sizes > 0, uniform(seed, length), 2.0), axis=1, stable=True)  # (B, W)
    sizes = tf.gather(sizes, order, batch_dims=1)

    def fits(taken, open_, left):
        return tf.reduce_any(open_)

    def one_pass(taken, open_, left):
        reach = tf.cumsum(tf.where(open_, sizes, 0), axis=1)
        take = open_ & (reach <= left[:, None])
        left = left - tf.reduce_sum(tf.where(take, sizes, 0), axis=1)
        return taken | take, open_ & ~take & (sizes <= left[:, None]), left

    nothing = tf.zeros_like(sizes, tf.bool)
    taken, _, _ = tf.while_loop(fits, one_pass, [nothing, (sizes > 0) & (sizes <= budget[:, None]), budget])
    back = tf.argsort(order, axis=1)
    taken = tf.gather(taken, back, batch_dims=1)  # by word again
    return tf.gather(taken, word, batch_dims=1) & maskable


def _positions_of(chosen: tf.Tensor, num_predictions: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The places of the first P True values in each row, ascending, then zeros; and weights 1 where one is."""
    order = tf.argsort(tf.cast(~chosen, tf.int32), axis=1, stable=True)[:, :num_predictions]
    order = tf.pad(order, [[0, 0], [0, num_predictions - tf.shape(order)[1]]])
    count = tf.reduce_sum(tf.cast(chosen, tf.int32), axis=1, keepdims=True)
    used = tf.range(num_predictions)[None, :] < count
    return tf.where(used, order, 0), tf.cast(used, tf.float32)


def _replace(token_ids, chosen, mask_id, vocabulary_size, seed):
    """80 % `mask_id`, 10 % as they were, 10 % any token of the vocabulary, special ones included as in Google's code."""
    length = tf.shape(token_ids)[1]
    fate = uniform(fold(seed, 0), length)
    drawn = tf.cast(uniform(fold(seed, 1), length) * vocabulary_size, tf.int32)
    new = tf.where(fate < 0.8, mask_id, tf.where(fate < 0.9, token_ids, drawn))
    return tf.where(chosen, new, token_ids)
