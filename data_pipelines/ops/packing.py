"""Several examples in one row, each for itself: `pack_ids` keep their attention apart, `position_ids` start anew.

Masks are drawn before, one example at a time, so packing changes nothing but where an example lies.
"""

from collections.abc import Callable

import tensorflow as tf

ALONG_TOKENS = "token_ids", "segment_ids", "role_ids", "character_ids", "ngram_ids"


def pack_rows(row_length: int, most: int, num_predictions: int) -> Callable:
    """Returns an op that lays N framed and masked examples into B rows.

    Reads:  token_ids, segment_ids, padding_mask (N, L), and role_ids, character_ids, ngram_ids (N, L, ...) where they are there;
            mask_positions, labels, label_weights (N, P), of which those for which a row has no room are left out; others (N,).
    Writes: token_ids, segment_ids, padding_mask (B, R), and role_ids, character_ids, ngram_ids; pack_ids (B, R) 1, 2, ... for
            the examples of a row, 0 on padding; position_ids (B, R) from 0 in each example; mask_positions, labels, label_weights
            (B, S);
            pack_starts (B, K) where each example begins; others (B, K), 0 where there is no example.

    Args:
        row_length, most, num_predictions: R, K and S.

    The op also takes `row` (N,), rising: the row of each example, and B. Each row must have room for its examples.
    """

    def op(features: dict[str, tf.Tensor], row: tf.Tensor, num_rows: int) -> dict[str, tf.Tensor]:
        row = tf.cast(row, tf.int32)
        padding_mask = features["padding_mask"]
        lengths = tf.reduce_sum(tf.cast(padding_mask, tf.int32), axis=1)  # (N,)
        start, slot = _within(row, lengths), _within(row, tf.ones_like(row))  # (N,)
        example, place = tf.unstack(tf.cast(tf.where(padding_mask), tf.int32), axis=1)  # (T,)
        target = tf.stack([tf.gather(row, example), tf.gather(start, example) + place], axis=1)
        shape = [num_rows, row_length]
        packed = {
            name: tf.scatter_nd(
                target, tf.boolean_mask(features[name], padding_mask), [*shape, *features[name].shape[2:]]
            )
            for name in ALONG_TOKENS
            if name in features
        }
        packed["pack_ids"] = tf.scatter_nd(target, tf.gather(slot, example) + 1, shape)
        packed["position_ids"] = tf.scatter_nd(target, place, shape)
        packed["padding_mask"] = packed["pack_ids"] > 0

        used = features["label_weights"] > 0  # (N, P)
        owner = tf.cast(tf.where(used)[:, 0], tf.int32)  # (M,)
        counts = tf.reduce_sum(tf.cast(used, tf.int32), axis=1)
        rank = tf.range(tf.size(owner)) - tf.gather(tf.cumsum(counts, exclusive=True), owner)
        target = tf.stack([tf.gather(row, owner), tf.gather(_within(row, counts), owner) + rank], axis=1)
        values = {name: tf.boolean_mask(features[name], used) for name in ("mask_positions", "labels", "label_weights")}
        values["mask_positions"] += tf.gather(start, owner)
        fits = target[:, 1] < num_predictions  # objectives that draw each word for itself may hide more than the rate
        for name, value in values.items():
            rows = tf.boolean_mask(target, fits)
            packed[name] = tf.scatter_nd(rows, tf.boolean_mask(value, fits), [num_rows, num_predictions])

        target, shape = tf.stack([row, slot], axis=1), [num_rows, most]
        packed["pack_starts"] = tf.scatter_nd(target, start, shape)
        others = [name for name, value in features.items() if name not in packed and value.shape.rank == 1]
        return packed | {name: tf.scatter_nd(target, features[name], shape) for name in others}

    return op


def _within(row: tf.Tensor, amounts: tf.Tensor) -> tf.Tensor:
    """Returns how much stands before each example in its row, int32 (N,)."""
    before = tf.cumsum(amounts, exclusive=True)
    first = tf.searchsorted(row, row)  # the first example of the same row
    return before - tf.gather(before, first)
