"""Numbers, sizes, orders and runs of groups of tokens (words, sentences, spans), for whole batches at once."""

import tensorflow as tf


def per_group(reduce, values: tf.Tensor, group: tf.Tensor) -> tf.Tensor:
    """Reduces `values`, (B, L), within the groups, int (B, L), of each row: (B, L), by the number of the group.

    Args:
        reduce: `tf.math.unsorted_segment_sum`, `_min` or `_max`.
    """
    batch, length = tf.shape(values)[0], tf.shape(values)[1]
    flat = group + tf.range(batch)[:, None] * length
    reduced = reduce(tf.reshape(values, [-1]), tf.reshape(flat, [-1]), batch * length)
    return tf.reshape(reduced, [batch, length])


def words_of(starts: tf.Tensor, maskable: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the number of the word of each token, (B, L), and the tokens of each word, (B, W), with 0 beyond the last.

    Args:
        starts: int (B, L), 1 where a word opens.
        maskable: bool (B, L), False on special tokens and padding, which belong to no word.
    """
    real = tf.cast(maskable, tf.int32)
    word = tf.maximum(tf.cumsum(starts * real, axis=1) - 1, 0)
    return word, per_group(tf.math.unsorted_segment_sum, real, word)


def run_ends(inside: tf.Tensor) -> tf.Tensor:
    """Returns where the run of True that a place belongs to ends, exclusive: int (B, L); meaningless where `inside` is False."""
    run = tf.cumsum(tf.cast(~inside, tf.int32), axis=1, exclusive=True)
    place = tf.range(tf.shape(inside)[1])[None, :]
    ends = per_group(tf.math.unsorted_segment_max, tf.where(inside, place + 1, 0), run)
    return tf.gather(ends, run, batch_dims=1)


def run_numbers(inside: tf.Tensor) -> tf.Tensor:
    """Returns numbers the runs of True in each row from 1: int (B, L)."""
    before = tf.pad(inside, [[0, 0], [1, 0]])[:, :-1]
    return tf.cumsum(tf.cast(inside & ~before, tf.int32), axis=1)


def inverse(order: tf.Tensor) -> tf.Tensor:
    """Returns the inverse of the permutation in each row: int32 (B, N)."""
    batch, count = tf.shape(order)[0], tf.shape(order)[1]
    flat = tf.reshape(order + tf.range(batch)[:, None] * count, [-1])
    return tf.reshape(tf.math.invert_permutation(flat), [batch, count]) % count


def ranks(values: tf.Tensor) -> tf.Tensor:
    """Returns the place of each value in the ascending order of its row, the earlier first among equals: int32 (B, N)."""
    return inverse(tf.argsort(values, axis=1, stable=True))


def compact(values: tf.Tensor, keep: tf.Tensor, width: int, fill: int = 0) -> tf.Tensor:
    """Returns the values of each row where `keep` is True, moved to the front, in order, of (B, width)."""
    lengths = tf.reduce_sum(tf.cast(keep, tf.int64), axis=1)
    ragged = tf.RaggedTensor.from_row_lengths(tf.boolean_mask(values, keep), lengths, validate=False)
    return ragged.to_tensor(fill, shape=(None, width))
