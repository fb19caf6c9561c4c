"""Text for an encoder-decoder: one piece, unframed; and its frame once it is corrupted.

compose(join_segments(length - 2), permute_sentences(), infill_text(...), frame_denoising(vocabulary, length))
"""

import tensorflow as tf

from data_pipelines.ops.compose import Op
from data_pipelines.ops.framing import STARTS, without_starts
from data_pipelines.ops.groups import compact
from data_pipelines.text.byte_pairs import byte_symbols
from data_pipelines.text.vocabulary import CLS, PAD, SEP, Vocabulary


def join_segments(length: int, separator_id: int | None = None) -> Op:
    """Returns both segments of a record as one text of at most `length` tokens, without special tokens.

    Reads:  token_ids (B, N), segment_lengths (B, 2), and those of word_start, phrase_start, ... that are there.
    Writes: the same as (B, length), and padding_mask, True on tokens.

    Args:
        separator_id: left out of the text, where records of full sentences hold it.
    """

    def op(features):
        features = dict(features)
        total = tf.reduce_sum(features.pop("segment_lengths"), axis=1, keepdims=True)
        token_ids = tf.cast(features["token_ids"], tf.int32)
        place = tf.range(tf.shape(token_ids)[1], dtype=total.dtype)[None, :]
        keep = (place < total) & (token_ids != (-1 if separator_id is None else separator_id))
        for name in ("token_ids", *STARTS):
            if name in features:
                features[name] = compact(tf.cast(features[name], tf.int32), keep, length)
        for name in STARTS:
            if name in features:  # a word that truncation has cut opens the text
                opens = tf.cast(tf.reduce_any(keep, axis=1, keepdims=True), tf.int32)
                features[name] = tf.concat([opens, features[name][:, 1:]], axis=1)
        count = tf.reduce_sum(tf.cast(keep, tf.int32), axis=1)
        features["padding_mask"] = tf.sequence_mask(tf.minimum(count, length), length)
        return features

    return op


def mark_sentences(vocabulary: Vocabulary, stops: str = ".。!！?？") -> Op:
    """Writes sentence_start, int32 (B, L): 1 at the first token and behind each full stop (as fairseq, for BART).

    Reads: token_ids, padding_mask, all (B, L). For records that do not mark sentences themselves.
    """
    symbols = byte_symbols()  # byte-level vocabularies write their tokens in these
    spelled = [*stops, *("".join(symbols[byte] for byte in stop.encode()) for stop in stops)]
    ids = sorted({vocabulary[stop] for stop in spelled if stop in vocabulary}) or [-1]

    def op(features):
        ends = tf.reduce_any(features["token_ids"][:, :, None] == ids, axis=2)
        starts = tf.pad(ends[:, :-1] & ~ends[:, 1:], [[0, 0], [1, 0]], constant_values=True)
        return {**features, "sentence_start": tf.cast(starts & features["padding_mask"], tf.int32)}

    return op


def frame_denoising(vocabulary: Vocabulary, length: int) -> Op:
    """Lets the encoder read the noisy text and the decoder write the clean one (BART; Lewis et al., 2019, section 2.2).

    `[CLS]` and `[SEP]` play `<s>` and `</s>`. The decoder reads `</s> <s> clean` and answers `<s> clean </s>`.

    Reads:  token_ids and padding_mask (B, N), the noisy text; clean_ids and clean_mask, the clean one.
    Writes: token_ids, padding_mask, `<s> noisy </s>`; target_ids, labels, label_weights float32; all (B, length).
    Drops:  clean_ids, clean_mask, word_start and its kin.
    """
    bos, eos, pad = vocabulary[CLS], vocabulary[SEP], vocabulary[PAD]

    def op(features):
        features = without_starts(features)
        clean, _ = frame(features.pop("clean_ids"), features.pop("clean_mask"), bos, eos, pad, length)
        features["token_ids"], features["padding_mask"] = frame(
            features["token_ids"], features["padding_mask"], bos, eos, pad, length
        )
        features["labels"] = clean
        features["label_weights"] = tf.cast(clean != pad, tf.float32)
        features["target_ids"] = tf.pad(clean[:, :-1], [[0, 0], [1, 0]], constant_values=eos)
        return features

    return op


def frame(token_ids, padding_mask, bos: int, eos: int, pad: int, length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns `bos text eos`, (B, length) with its padding mask. The text is cut where it would exceed `length`."""
    count = tf.reduce_sum(tf.cast(padding_mask, tf.int32), axis=1, keepdims=True)
    count = tf.minimum(count, length - 2)
    width = tf.shape(token_ids)[1]
    text = tf.pad(token_ids, [[0, 0], [1, tf.maximum(length - 1 - width, 0)]])[:, :length]
    place = tf.range(length)[None, :]
    text = tf.where(place == 0, bos, tf.where(place <= count, text, tf.where(place == count + 1, eos, pad)))
    return tf.ensure_shape(text, (None, length)), place < count + 2
