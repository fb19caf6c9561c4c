"""UniLM's rows: four language models in one network, told apart by what a token may see (Dong et al., 2019, arXiv 1905.03197)."""

import tensorflow as tf

from data_pipelines.features import SEQ2SEQ
from data_pipelines.ops.cloze import hide, ordinary_ids
from data_pipelines.ops.compose import Op
from data_pipelines.ops.framing import frame_pair
from data_pipelines.ops.groups import ranks
from data_pipelines.ops.seeds import fold, take_seed, uniform
from data_pipelines.text.vocabulary import MASK, Vocabulary

SEGMENTS = (0, 2, 3, 4)  # by `objective_ids`, the segment of the first text; that of a second one is one more
ENDS = (1 / 3, 1 / 2, 2 / 3)  # where the shares of a third, a sixth, a sixth and a third end (section 2.3)


def frame_language_models(vocabulary: Vocabulary, sequence_length: int) -> Op:
    """Returns `[CLS] A [SEP] B [SEP]` for the bidirectional and the seq2seq model, `[CLS] A B [SEP]` for those of one
    direction.

    The model is drawn for a batch, with shares of 1/3, 1/6, 1/6 and 1/3. Only the bidirectional one, which also predicts whether B
    follows, sees second segments that do not: of such records the others take A alone, which seq2seq cuts into halves.

    Reads:  token_ids (B, N), segment_lengths (B, 2), next_sentence_labels (B,), batch_seed (B,), and word_start and its kin.
    Writes: as `frame_pair`, with segments 0 and 1, 2, 3, or 4 and 5; objective_ids (B,); source_lengths (B,), of `[CLS] A [SEP]`.
    """
    frame = frame_pair(vocabulary, sequence_length)

    def op(features):
        drawn = uniform(features["batch_seed"], 1)[:, 0]
        objective = tf.reduce_sum(tf.cast(drawn[:, None] >= tf.constant(ENDS), tf.int32), axis=1)  # (B,)
        lengths = tf.cast(features["segment_lengths"], tf.int32)
        first, second = lengths[:, 0], lengths[:, 1]
        follows = features["next_sentence_labels"] == 0
        joined = first + tf.where(follows, second, 0)
        half = first // 2
        chosen = [
            (first, second),
            (joined, tf.zeros_like(joined)),
            (joined, tf.zeros_like(joined)),
            (tf.where(follows, first, half), tf.where(follows, second, first - half)),
        ]
        pairs = tf.stack([tf.stack(pair, axis=1) for pair in chosen], axis=1)  # (B, 4, 2)
        lengths = tf.gather(pairs, objective, batch_dims=1)  # (B, 2)
        return _told_apart(frame({**features, "segment_lengths": lengths}), objective, lengths[:, 0] + 2)

    return op


def frame_source_and_target(vocabulary: Vocabulary, sequence_length: int) -> Op:
    """Returns `[CLS] source [SEP] target [SEP]` of parallel texts for the seq2seq model; only the target may be hidden, with
    its `[SEP]`.

    Reads:  token_ids (B, N), segment_lengths (B, 2).
    Writes: as `frame_language_models`; `maskable` is True on the target and the `[SEP]` behind it.
    """
    frame = frame_pair(vocabulary, sequence_length)

    def op(features):
        lengths = tf.cast(features["segment_lengths"], tf.int32)
        features = frame(features)
        source = lengths[:, 0] + 2
        place = tf.range(sequence_length)[None, :]
        features["maskable"] = (place >= source[:, None]) & (place < tf.reduce_sum(lengths, axis=1, keepdims=True) + 3)
        return _told_apart(features, tf.fill(tf.shape(source), SEQ2SEQ), source)

    return op


def _told_apart(features, objective, source):
    segments = tf.gather(tf.constant(SEGMENTS), objective)[:, None] + features["segment_ids"]
    features["segment_ids"] = tf.where(features["padding_mask"], segments, 0)
    return features | {"objective_ids": objective, "source_lengths": source}


def mask_targets(vocabulary: Vocabulary, rate: float = 0.7, num_predictions: int = 20) -> Op:
    """Hides single tokens of the target, the end among them, so that a network learns to stop (section 2.5, and code).

    min(P, max(1, round(rate * length))) tokens, where the length is that of the target without its end.

    Reads:  token_ids, maskable (B, L); seed (B,).
    Writes: as `corruption.mask_tokens`.
    """
    mask_id, drawable = vocabulary[MASK], ordinary_ids(vocabulary)

    def op(features):
        features, seed = take_seed(features)
        maskable = features["maskable"]
        length = tf.cast(tf.reduce_sum(tf.cast(maskable, tf.int32), axis=1) - 1, tf.float64)
        budget = tf.minimum(num_predictions, tf.maximum(1, tf.cast(tf.round(rate * length), tf.int32)))  # (B,)
        drawn = tf.where(maskable, uniform(fold(seed, 0), tf.shape(maskable)[1]), 2.0)
        chosen = maskable & (ranks(drawn) < budget[:, None])
        return hide(features, chosen, num_predictions, mask_id, drawable, fold(seed, 1))

    return op
