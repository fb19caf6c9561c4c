"""BART's noises of single tokens and whole texts (Lewis et al., 2019, section 2.2): token masking, token deletion, document
rotation."""

import tensorflow as tf

from data_pipelines.ops.compose import Op
from data_pipelines.ops.framing import without_starts
from data_pipelines.ops.groups import compact, ranks
from data_pipelines.ops.infilling import keep_target
from data_pipelines.ops.seeds import fold, take_seed, uniform


def replace_tokens(mask_id: int, rate: float) -> Op:
    """Replaces ceil(rate * n) of n tokens by one `mask_id` each.

    Reads:  token_ids and padding_mask, (B, L), a text without special tokens; seed (B,).
    Writes: token_ids (B, L); clean_ids and clean_mask, the text as it was, unless an earlier op has kept it.
    """

    def op(features):
        features, seed = take_seed(keep_target(features))
        chosen = draw(features["padding_mask"], seed, rate)
        return {**features, "token_ids": tf.where(chosen, mask_id, features["token_ids"])}

    return op


def delete_tokens(rate: float) -> Op:
    """Takes ceil(rate * n) of n tokens out, so that the network must find where something is missing.

    Reads:  as `replace_tokens`.
    Writes: token_ids, padding_mask (B, L), the shorter text; clean_ids and clean_mask as `replace_tokens`.
    Drops:  word_start and its kin, which no longer fit.
    """

    def op(features):
        features, seed = take_seed(keep_target(features))
        real, length = features["padding_mask"], features["token_ids"].shape[1]
        keep = real & ~draw(real, seed, rate)
        count = tf.reduce_sum(tf.cast(keep, tf.int32), axis=1)
        token_ids = compact(features["token_ids"], keep, length)
        return {**without_starts(features), "token_ids": token_ids, "padding_mask": tf.sequence_mask(count, length)}

    return op


def rotate_document(rate: float = 1.0) -> Op:
    """Lets a share `rate` of the texts begin with a token drawn evenly; what stood before it follows the end.

    Reads:  as `replace_tokens`.
    Writes: token_ids (B, L); clean_ids and clean_mask as `replace_tokens`.
    Drops:  word_start and its kin, which no longer fit.
    """

    def op(features):
        features, seed = take_seed(keep_target(features))
        length = features["token_ids"].shape[1]
        real = tf.cast(features["padding_mask"], tf.int32)
        count = tf.maximum(tf.reduce_sum(real, axis=1, keepdims=True), 1)  # (B, 1)
        chance, where = uniform(fold(seed, 0), 1), uniform(fold(seed, 1), 1)  # (B, 1)
        first = tf.where(chance < rate, tf.cast(where * tf.cast(count, tf.float32), tf.int32), 0)
        place = tf.range(length)[None, :]
        source = tf.where(place < count, (place + first) % count, place)
        return {**without_starts(features), "token_ids": tf.gather(features["token_ids"], source, batch_dims=1)}

    return op


def draw(real: tf.Tensor, seed: tf.Tensor, rate: float) -> tf.Tensor:
    """Returns ceil(rate * n) of the n real tokens of each row, bool (B, L)."""
    count = tf.reduce_sum(tf.cast(real, tf.float64), axis=1, keepdims=True)
    wanted = tf.cast(tf.math.ceil(count * rate), tf.int32)
    return real & (ranks(tf.where(real, uniform(fold(seed, 0), real.shape[1]), 2.0)) < wanted)
