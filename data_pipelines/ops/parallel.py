"""Frames parallel texts for encoder-decoders."""

import tensorflow as tf

from data_pipelines.ops.compose import Op
from data_pipelines.text.vocabulary import EOS, PAD, SEP, Vocabulary


def end_of(vocabulary: Vocabulary) -> int:
    """Returns the token that ends a source and a target."""
    return vocabulary[EOS if EOS in vocabulary else SEP]


def frame_parallel(
    vocabulary: Vocabulary,
    sequence_length: int,
    ends_source: bool = True,
    start: int | None = None,
    opening: int | None = None,
) -> Op:
    """Returns source and target, each with an end token; the decoder reads the target moved on by one place.

    By default the padding token stands at its first place, of which tensor2tensor's decoders see a vector of zeros.

    Args:
        ends_source: whether the source has an end token too.
        start: the token at the first place of what the decoder reads; None for padding.
        opening: a token before each source, of which the last piece is left out if there is no room; None for none.

    Reads:  token_ids (B, N) both sides side by side, segment_lengths (B, 2), each less than `sequence_length`.
    Writes: token_ids, padding_mask (B, L) of the source; target_ids, labels, label_weights (B, L).
    """
    end, pad = end_of(vocabulary), vocabulary[PAD]
    first = pad if start is None else start

    def op(features):
        features = dict(features)
        lengths = tf.cast(features.pop("segment_lengths"), tf.int32)
        both = tf.cast(features["token_ids"], tf.int32)
        used = lengths[:, :1]  # pieces of the source
        if opening is not None:
            used = tf.minimum(used, sequence_length - 1 - int(ends_source))
        source = side(both, tf.zeros_like(used), used, end if ends_source else pad)
        if opening is not None:
            source = tf.pad(source[:, :-1], [[0, 0], [1, 0]], constant_values=opening)
            used += 1
        target = side(both, lengths[:, :1], lengths[:, 1:], end)
        features = {name: features[name] for name in ("seed", "example_weights") if name in features}
        place = tf.range(sequence_length)[None, :]
        features["token_ids"], features["padding_mask"] = source, place < used + int(ends_source)
        features["labels"] = target
        features["label_weights"] = tf.cast(place <= lengths[:, 1:], tf.float32)
        features["target_ids"] = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=first)
        return features

    def side(both, start, length, last):
        """Returns (B, L): `length` pieces from `start` on, the token `last`, padding."""
        place = tf.range(sequence_length)[None, :]
        where = tf.minimum(start + place, tf.maximum(tf.shape(both)[1] - 1, 0))
        pieces = tf.gather(both, where, batch_dims=1)
        return tf.where(place < length, pieces, tf.where(place == length, last, pad))

    return op
