"""MASS (Song et al., 2019): the encoder misses one fragment, the decoder writes it."""

import tensorflow as tf

from data_pipelines.ops.cloze import ordinary_ids, replace
from data_pipelines.ops.compose import Op
from data_pipelines.ops.framing import STARTS
from data_pipelines.ops.joined import frame
from data_pipelines.ops.seeds import fold, take_seed, uniform
from data_pipelines.text.vocabulary import CLS, MASK, PAD, SEP, Vocabulary


def mask_fragment(vocabulary: Vocabulary, length: int, rate: float = 0.5) -> Op:
    """Hides floor(rate * n + 1 / 2) of n tokens in a row; K = the most that `length` allows (section 3.1).

    As in the released code, the fragment opens the text in 20 % of examples, closes it in 20 %, and lies anywhere in
    the others; the first decoder input is the token before the fragment; of the hidden tokens 80 % become `[MASK]`,
    10 % stay, 10 % become random ones. Special tokens are neither hidden nor drawn. Positions of the decoder are those
    of its input tokens in the framed text.

    Reads:  token_ids and padding_mask, a text without special tokens, (B, N); seed (B,).
    Writes: token_ids, padding_mask (B, length), `[CLS] text [SEP]` with the gap; target_ids, target_position_ids,
        labels int32 (B, K), label_weights float32 (B, K).
    """
    cls, sep, pad, mask = (vocabulary[token] for token in (CLS, SEP, PAD, MASK))
    drawable = ordinary_ids(vocabulary)
    width = fragment_length(length - 2, rate)

    def op(features):
        features, seed = take_seed({name: value for name, value in features.items() if name not in STARTS})
        token_ids, padding_mask = frame(features["token_ids"], features["padding_mask"], cls, sep, pad, length)
        n = tf.reduce_sum(tf.cast(padding_mask, tf.int32), axis=1) - 2  # (B,)
        size = tf.cast(tf.floor(tf.cast(n, tf.float64) * rate + 0.5), tf.int32)
        where, offset = tf.unstack(uniform(fold(seed, 0), 2), axis=1)
        anywhere = tf.cast(offset * tf.cast(n - size + 1, tf.float32), tf.int32)
        first = 1 + tf.where(where < 0.2, 0, tf.where(where < 0.4, n - size, anywhere))  # (B,)
        place = tf.range(length)[None, :]
        hidden = (place >= first[:, None]) & (place < (first + size)[:, None])
        step = tf.range(width)[None, :]
        used = step < size[:, None]  # (B, K)
        target = tf.where(used, first[:, None] + step, 1)
        features["target_position_ids"] = tf.where(used, target - 1, 0)
        features["target_ids"] = tf.where(used, tf.gather(token_ids, target - 1, batch_dims=1), pad)
        features["labels"] = tf.where(used, tf.gather(token_ids, target, batch_dims=1), pad)
        features["label_weights"] = tf.cast(used, tf.float32)
        features["token_ids"] = replace(token_ids, hidden, mask, drawable, fold(seed, 1))
        return {**features, "padding_mask": padding_mask}

    return op


def fragment_length(n: int, rate: float = 0.5) -> int:
    """Tokens hidden of `n`; halves are rounded up."""
    return int(n * rate + 0.5)
