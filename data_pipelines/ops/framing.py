"""Puts special tokens around segments and pads to a fixed length."""

import tensorflow as tf

from data_pipelines.features import IGNORED
from data_pipelines.ops.compose import Op
from data_pipelines.text.frames import BERT, DIALOGUE, Frame
from data_pipelines.text.vocabulary import PAD, SEP, Vocabulary

STARTS = ("word_start", "phrase_start", "entity_start", "sentence_start")  # 1 where a unit opens; records hold some

# A number for each token that records may hold, 2 where it does not count: on special tokens, padding, and what records say.
TOKEN_LABELS = ("capital_labels", "repeated_labels")


def without_starts(features) -> dict:
    """Returns the features but for those of `STARTS`, which do not fit a text that is changed."""
    return {name: value for name, value in features.items() if name not in STARTS}


def frame_pair(vocabulary: Vocabulary, sequence_length: int, frame: Frame = BERT) -> Op:
    """Returns `[CLS] A [SEP] B [SEP]`, or `[CLS] A [SEP]` where the second segment is empty (Devlin et al., 2018, figure 2), or
    another frame.

    A `[SEP]` inside a segment, where full sentences cross the end of a document, is not maskable either.

    Reads:  token_ids (B, N) all segments side by side, segment_lengths (B, S), and those of `STARTS` and `TOKEN_LABELS` that
        are there.
    Writes: token_ids, segment_ids, padding_mask, word_start and its kin, labels of tokens, maskable (False on special tokens), all
        (B, L).

    `sequence_length` must hold the longest example with its special tokens; `dataset` checks this against the manifest.
    """
    ids = {part.role: vocabulary[part.role] for part in frame.parts if part.role}
    usual = vocabulary[SEP] if SEP in ids else next(iter(ids.values()))
    pad, separator = vocabulary[PAD], vocabulary.roles.get(SEP, -1)

    def op(features):
        features = dict(features)
        lengths = tf.cast(features.pop("segment_lengths"), tf.int32)  # (B, S)
        begins, end = _begins(frame, lengths)
        place = tf.range(sequence_length)[None, :]  # (1, L)
        place = place - (sequence_length - end) if frame.pads_left else place
        padding_mask = (place >= 0) & (place < end) if frame.pads_left else place < end
        maskable, first, source = False, False, 0
        for part, begin in zip(frame.parts, begins, strict=True):
            if part.text is not None:
                inside = (place >= begin) & (place < begin + lengths[:, part.text, None])
                before = tf.reduce_sum(lengths[:, : part.text], axis=1, keepdims=True) if part.text else 0
                source = tf.where(inside, place - (begin - before), source)  # (B, L)
                maskable, first = maskable | inside, first | (place == begin)

        def spread(values):
            return tf.gather(tf.cast(values, tf.int32), source, batch_dims=1)

        special, segments = usual, frame.parts[0].segment
        for previous, part, begin in zip((frame.parts[0], *frame.parts), frame.parts, begins, strict=False):
            if part.role and ids[part.role] != usual:
                special = tf.where(place == begin, ids[part.role], special)
            if part.segment != previous.segment:
                segments += (part.segment - previous.segment) * tf.cast(place >= begin, tf.int32)
        token_ids = tf.where(maskable, spread(features["token_ids"]), tf.where(padding_mask, special, pad))
        features["token_ids"] = token_ids
        features["segment_ids"] = tf.where(padding_mask, segments, frame.pad_segment)
        features["padding_mask"] = padding_mask
        # Special tokens open a group of their own, and no word reaches across one.
        for name in STARTS:
            if name in features:
                starts = tf.where(maskable & ~first, spread(features[name]), 1)
                features[name] = tf.where(padding_mask, starts, 0)
        for name in TOKEN_LABELS:
            if name in features:
                features[name] = tf.where(maskable, spread(features[name]), IGNORED)
        features["maskable"] = maskable & (token_ids != separator)
        return features

    return op


def frame_dialogue(vocabulary: Vocabulary, sequence_length: int) -> Op:
    """Returns `[CLS] Q [SEP] R [SEP]` or `[CLS] Q [SEP] R [SEP] Q [SEP]`, or with Q and R changed about: the turns of two
    speakers (ERNIE 1.0; Sun et al., 2019, section 3.3.2). Who speaks stands in `role_ids`, and all is one segment.

    Reads:  as `frame_pair`, of three segments, of which the last may be empty; first_role (B,), who speaks first: 1 for R, and Q
        where records lack it.
    Writes: as `frame_pair`, and role_ids (B, L), 0 on padding.
    """
    frame = frame_pair(vocabulary, sequence_length, DIALOGUE)

    def op(features):
        features = frame(features)
        turns = features["segment_ids"]  # 0 and 1 in turn
        first = tf.cast(features.pop("first_role", tf.zeros_like(turns[:, 0])), tf.int32)[:, None]
        roles = tf.where(features["padding_mask"], tf.abs(turns - first), 0)
        return features | {"role_ids": roles, "segment_ids": tf.zeros_like(turns)}

    return op


def _begins(frame: Frame, lengths: tf.Tensor) -> tuple[list, tf.Tensor]:
    """Returns where each part of a frame begins, and where the last one ends: numbers, or int32 (B, 1)."""
    begins, end = [], 0
    for part in frame.parts:
        begins.append(end)
        size = 1 if part.text is None else lengths[:, part.text, None]
        if part.needs is not None and part.text is None:
            size = tf.cast(lengths[:, part.needs, None] > 0, tf.int32)
        end = end + size
    return begins, end
