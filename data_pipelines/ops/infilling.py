"""BART's noise (Lewis et al., 2019, section 2.2), as fairseq's `denoising_dataset` makes it."""

import math

import numpy as np
import tensorflow as tf

from data_pipelines.ops.cloze import draw
from data_pipelines.ops.compose import Op
from data_pipelines.ops.framing import STARTS, without_starts
from data_pipelines.ops.groups import compact, ranks, words_of
from data_pipelines.ops.seeds import fold, take_seed, uniform

SPARE = 16  # draws beyond what is needed at length one; all of them are zero with a chance of exp(-48)


def permute_sentences(rate: float = 1.0) -> Op:
    """Shuffles ceil(rate * n) of n sentences among their own places; 1 shuffles all.

    Reads:  token_ids, padding_mask, sentence_start, (B, L), and those of word_start, ... that are there; seed (B,).
    Writes: the same, moved; clean_ids and clean_mask, the text as it was, unless an earlier op has kept it.
    """

    def op(features):
        features, seed = take_seed(keep_target(features))
        real, length = features["padding_mask"], tf.shape(features["token_ids"])[1]
        sentence, sizes = words_of(features["sentence_start"], real)  # (B, L), (B, S)
        exists = sizes > 0
        count = tf.reduce_sum(tf.cast(exists, tf.float64), axis=1, keepdims=True)
        chance = tf.where(exists, uniform(fold(seed, 0), length), 2.0)
        moves = ranks(chance) < tf.cast(tf.math.ceil(count * rate), tf.int32)
        number = tf.range(length)[None, :]
        free = tf.sort(tf.where(moves, number, length), axis=1)  # the places of the sentences that move, then L
        lot = ranks(tf.where(moves, uniform(fold(seed, 1), length), 2.0))
        place = tf.where(moves, tf.gather(free, lot, batch_dims=1), number)  # (B, S): the new place of each sentence
        key = tf.where(real, tf.gather(place, sentence, batch_dims=1), length) * length + number
        order = tf.argsort(key, axis=1)
        moved = {n: tf.gather(features[n], order, batch_dims=1) for n in ("token_ids", *STARTS) if n in features}
        return {**features, **moved}

    return op


def infill_text(
    mask_id: int, rate: float = 0.3, mean: float = 3.0, units: str = "word_start", drawable=None, random: float = 0.0
) -> Op:
    """Replaces spans of words by one `mask_id` each; empty spans become a `mask_id` between two tokens.

    ceil(rate * words) words are covered by spans with lengths from a Poisson distribution, the last one cut; each
    starts at a word of its own. As in the released code spans may run into each other, so that fewer words vanish.

    Reads:  token_ids, padding_mask and `units`, (B, L), a text without special tokens; seed (B,).
    Writes: token_ids, padding_mask (B, L), the shorter text; clean_ids and clean_mask as `permute_sentences`.
        A text that insertions would make longer than L takes only as many as there is room for.
    Drops:  word_start and its kin, which no longer fit.

    Args:
        random: with this probability a random id of `drawable` stands in place of a `mask_id`.
    """

    def op(features):
        features, seed = take_seed(keep_target(features))
        token_ids, real = features["token_ids"], features["padding_mask"]
        length = token_ids.shape[1]
        word, sizes = words_of(features[units], real)  # (B, L), (B, W)
        lengths, inserts = draw_lengths(sizes, fold(seed, 0), rate, mean)  # (B, C), (B,)
        opens, deleted = lay_spans(lengths, sizes, fold(seed, 1))  # bool (B, W)
        first_of_word = features[units] > 0
        opens, deleted = (tf.gather(x, word, batch_dims=1) for x in (opens, deleted))
        keep = real & ~deleted & ~(opens & ~first_of_word)
        text = compact(tf.where(opens, mask_id, token_ids), keep, length)
        count = tf.reduce_sum(tf.cast(keep, tf.int32), axis=1)
        noisy, count = insert(text, count, tf.minimum(inserts, length - count), mask_id, fold(seed, 2))
        if random:
            drawn = uniform(fold(seed, 3), length) < random
            noisy = tf.where((noisy == mask_id) & drawn, draw(drawable, fold(seed, 4), length), noisy)
        features = without_starts(features)
        return {**features, "token_ids": noisy, "padding_mask": tf.sequence_mask(count, length)}

    return op


def keep_target(features) -> dict:
    """Keeps the text as it is for the decoder, unless an earlier op has done so."""
    clean = {"clean_ids": features["token_ids"], "clean_mask": features["padding_mask"]}
    return {**clean, **features}


def poisson(drawn: tf.Tensor, mean: float) -> tf.Tensor:
    """Returns uniform numbers as whole numbers of a Poisson distribution, int32."""
    chances = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(128)]
    ends = np.cumsum(chances).astype(np.float32)
    ends = ends[: np.argmax(ends >= ends[-1])]
    return tf.reshape(tf.searchsorted(ends, tf.reshape(drawn, [-1]), side="right"), tf.shape(drawn))


def draw_lengths(sizes, seed, rate: float, mean: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns span lengths, int (B, C), 0 in unused slots, that cover the budget of words exactly; and how many were empty."""
    words = tf.reduce_sum(tf.cast(sizes > 0, tf.int32), axis=1, keepdims=True)
    budget = tf.cast(tf.math.ceil(tf.cast(words, tf.float64) * rate), tf.int32)  # (B, 1)
    slots = math.ceil(sizes.shape[1] * rate) + SPARE
    drawn = poisson(uniform(seed, slots), mean)
    before = tf.cumsum(drawn, axis=1, exclusive=True)
    open_ = before < budget
    lengths = tf.where(open_, tf.minimum(drawn, budget - before), 0)
    return lengths, tf.reduce_sum(tf.cast(open_ & (drawn == 0), tf.int32), axis=1)


def lay_spans(lengths, sizes, seed) -> tuple[tf.Tensor, tf.Tensor]:
    """Lays each span at a random word of its own: which words open one, and which lie inside one, bool (B, W)."""
    batch, width = tf.shape(sizes)[0], sizes.shape[1]
    order = tf.argsort(tf.where(sizes > 0, uniform(seed, width), 2.0), axis=1, stable=True)
    used = lengths > 0
    slot = tf.minimum(tf.cumsum(tf.cast(used, tf.int32), axis=1, exclusive=True), width - 1)
    first = tf.gather(order, slot, batch_dims=1)  # (B, C): the word at which a span opens
    row = tf.range(batch)[:, None] * (width + 1)
    ones, end = tf.cast(used, tf.int32), tf.minimum(first + lengths, width)

    def counted(place):
        flat = tf.reshape(row + place, [-1])
        return tf.reshape(tf.math.unsorted_segment_sum(tf.reshape(ones, [-1]), flat, batch * (width + 1)), [batch, -1])

    opens = counted(first)[:, :width] > 0
    inside = tf.cumsum(counted(tf.minimum(first + 1, width)) - counted(end), axis=1)[:, :width] > 0
    return opens, inside


def insert(text, count, inserts, mask_id: int, seed) -> tuple[tf.Tensor, tf.Tensor]:
    """Puts `inserts` (B,) masks at random places of the first `count` (B,) tokens: the text and its new length."""
    length = tf.shape(text)[1]
    total = count + inserts
    place = tf.range(length)[None, :]
    chance = tf.where(place < total[:, None], uniform(seed, length), 2.0)
    new = ranks(chance) < inserts[:, None]  # (B, L)
    source = tf.maximum(tf.cumsum(tf.cast(~new, tf.int32), axis=1) - 1, 0)
    moved = tf.where(new, mask_id, tf.gather(text, source, batch_dims=1))
    return tf.where(place < total[:, None], moved, 0), total
