"""Windows over texts that are longer than a network reads, inside a graph, as `pretraining.stages.windows` has them."""

import tensorflow as tf

NEVER = -1e30


def token_windows(ids: tf.RaggedTensor, capacity: tf.Tensor, stride: int) -> dict[str, tf.Tensor]:
    """Returns the windows of all texts, W of them, in the order of the texts.

    Args:
        ids: int32 (B, None).
        capacity: int32 (B,), how many tokens a window of each text holds.
        stride: tokens from the beginning of one window to that of the next, at most so many.

    Returns:
        ids, ragged int32 (W, None); text int32 (W,), the row to which it belongs; first and count int32 (W,), its tokens; total
        int32 (W,), those of its text.
    """
    total = tf.cast(ids.row_lengths(), tf.int32)
    step = tf.minimum(capacity, stride)
    number = 1 + tf.maximum(0, -((capacity - total) // step))  # windows; -(-a // b) rounds up
    text = tf.repeat(tf.range(tf.size(total)), number)  # (W,)
    first = tf.ragged.range(number).flat_values * tf.gather(step, text)
    count = tf.minimum(tf.gather(total, text) - first, tf.gather(capacity, text))
    begin = tf.gather(tf.cast(ids.row_starts(), tf.int32), text) + first
    tokens = tf.ragged.range(begin, begin + count)  # places among the tokens of all texts
    return {
        "ids": tokens.with_flat_values(tf.gather(ids.flat_values, tokens.flat_values)),
        "text": text, "first": first, "count": count, "total": tf.gather(total, text),
    }  # fmt: skip


def most_context(found: dict[str, tf.Tensor], width: tf.Tensor) -> tf.Tensor:
    """Returns bool (W, T): True where no other window of the text shows more around the token; of equal ones the first does.

    Args:
        found: windows, as `token_windows` gives them.
        width: T, at least as many tokens as the longest window has.
    """
    place = tf.range(width)[None, :]
    first, count, text = (found[name][:, None] for name in ("first", "count", "text"))  # (W, 1)
    length = tf.cast(count, tf.float32)
    score = tf.cast(tf.minimum(place, count - 1 - place), tf.float32) + 0.01 * length  # (W, T)
    real = place < count
    size = tf.reduce_max(tf.concat([found["total"], [1]], axis=0))
    token = tf.where(real, text * size + first + place, 0)  # (W, T), over all texts
    slots = (tf.reduce_max(tf.concat([found["text"], [0]], axis=0)) + 1) * size
    flat, values = tf.reshape(token, [-1]), tf.reshape(tf.where(real, score, NEVER), [-1])
    best = tf.gather(tf.math.unsorted_segment_max(values, flat, slots), token)
    is_best = real & (score >= best)
    window = tf.range(tf.shape(place * tf.ones_like(count))[0])[:, None] + tf.zeros_like(place)  # (W, T)
    nobody = tf.int32.max
    owner = tf.math.unsorted_segment_min(tf.reshape(tf.where(is_best, window, nobody), [-1]), flat, slots)
    return is_best & (tf.gather(owner, token) == window)
