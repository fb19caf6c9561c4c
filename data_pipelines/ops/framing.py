"""Puts `[CLS]` and `[SEP]` around segments and pads to a fixed length."""

import tensorflow as tf

from data_pipelines.ops.compose import Op
from data_pipelines.text.vocabulary import CLS, PAD, SEP, Vocabulary

STARTS = ("word_start", "phrase_start", "entity_start", "sentence_start")  # 1 where a unit opens; records hold some


def frame_pair(vocabulary: Vocabulary, sequence_length: int) -> Op:
    """`[CLS] A [SEP] B [SEP]`, or `[CLS] A [SEP]` where the second segment is empty (Devlin et al., 2018, figure 2).

    A `[SEP]` inside a segment, where full sentences cross the end of a document, is not maskable either.

    Reads:  token_ids (B, N) both segments side by side, segment_lengths (B, 2), and those of `STARTS` that are there.
    Writes: token_ids, segment_ids, padding_mask, word_start and its kin, maskable (False on special tokens), all (B, L).

    `sequence_length` must hold the longest pair with its special tokens; `dataset` checks this against the manifest.
    """
    cls, sep, pad = vocabulary[CLS], vocabulary[SEP], vocabulary[PAD]

    def op(features):
        features = dict(features)
        lengths = tf.cast(features.pop("segment_lengths"), tf.int32)
        a, b = lengths[:, :1], lengths[:, 1:]  # (B, 1)
        place = tf.range(sequence_length)[None, :]  # (1, L)
        end = 1 + a + 1 + tf.where(b > 0, b + 1, 0)  # (B, 1)
        in_first = (place >= 1) & (place <= a)
        in_second = (place >= a + 2) & (place < a + 2 + b)
        maskable = in_first | in_second
        source = tf.where(in_second, place - 2, place - 1)
        source = tf.where(maskable, source, 0)  # (B, L)
        padding_mask = place < end

        def spread(values):
            return tf.gather(tf.cast(values, tf.int32), source, batch_dims=1)

        special = tf.where(place == 0, cls, sep)
        token_ids = tf.where(maskable, spread(features["token_ids"]), tf.where(padding_mask, special, pad))
        features["token_ids"] = token_ids
        features["segment_ids"] = tf.cast((place >= a + 2) & padding_mask, tf.int32)
        features["padding_mask"] = padding_mask
        # Special tokens open a group of their own, and no word reaches across one.
        first = (place == 1) | (place == a + 2)
        for name in STARTS:
            if name in features:
                starts = tf.where(maskable & ~first, spread(features[name]), 1)
                features[name] = tf.where(padding_mask, starts, 0)
        features["maskable"] = maskable & (token_ids != sep)
        return features

    return op
