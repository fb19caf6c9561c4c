"""How many tokens parsed records hold with their special tokens: values of `RecordFormat.lengths`.

TensorFlow is imported when a graph is made: processes that write records know these functions and never call them.
"""


def of_framed_segments(parsed):
    """Returns the tokens of all segments (N, S), one before the first, and one behind each that is not empty: int64 (N,)."""
    import tensorflow as tf

    segments = parsed["segment_lengths"]
    return tf.reduce_sum(segments, axis=1) + 1 + tf.math.count_nonzero(segments, axis=1)


def of_longest_side(parsed):
    """Returns the tokens of the longer of two sequences (N, 2), and one that ends it: int64 (N,)."""
    import tensorflow as tf

    return tf.reduce_max(parsed["segment_lengths"], axis=1) + 1


def of_mask(parsed):
    """Returns the tokens that `input_mask` (N, L) marks: int64 (N,)."""
    import tensorflow as tf

    return tf.reduce_sum(parsed["input_mask"], axis=1)
