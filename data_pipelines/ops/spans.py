"""Hides n-grams and spans: ALBERT's, SpanBERT's and UniLM's ways, which draw starts one after another.

A draw depends on those before it, so each is a loop over draws; every step serves the whole batch, and the loop ends
when all rows have hidden enough, which takes 10 to 30 steps for 20 predictions.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from data_pipelines.ops.cloze import budget_of, hide, ordinary_ids
from data_pipelines.ops.compose import Op
from data_pipelines.ops.groups import per_group, ranks, run_ends, run_numbers, words_of
from data_pipelines.ops.seeds import fold, take_seed, uniform
from data_pipelines.text.vocabulary import MASK, Vocabulary

NEVER = 1 << 20


def mask_ngrams(
    vocabulary: Vocabulary, rate: float = 0.15, num_predictions: int = 20, longest: int = 3, units: str = "word_start"
) -> Op:
    """Hides n-grams of whole words, n with probability proportional to 1 / n (ALBERT; Lan et al., 2019, section 4.1).

    As in the released code: starts in random order; an n-gram over the budget is shortened word by word, and left out
    where nothing is left of it or where it meets a token that is hidden already. Near the end of the text n is drawn
    among those that fit; the code, as static records do, draws among all and cuts what is beyond the end. Each token
    has its own fate, and replacements come from the whole vocabulary. An n-gram may reach over a special token, which
    stays as it is.

    Reads:  token_ids, padding_mask, maskable, and `units`, all (B, L); seed (B,).
    Writes: token_ids (B, L); mask_positions, labels (B, P), ascending, then zeros; label_weights float32 (B, P).
    """
    mask_id = vocabulary[MASK]

    def op(features):
        features, seed = take_seed(features)
        budget = budget_of(features, rate, num_predictions)
        chosen = choose_ngrams(features[units], features["maskable"], budget, fold(seed, 0), longest)
        return hide(features, chosen, num_predictions, mask_id, len(vocabulary), fold(seed, 1))

    return op


def choose_ngrams(starts, maskable, budget, seed, longest: int, shares: Sequence[float] | None = None) -> tf.Tensor:
    """Returns the tokens to hide, bool (B, L); see `mask_ngrams`, and `choose_words` for the arguments.

    Args:
        shares: how often n-grams of 1, 2, ... words are drawn; None for 1 / n.
    """
    word, sizes = words_of(starts, maskable)  # (B, L), (B, W)
    width = tf.shape(sizes)[1]
    count = tf.reduce_sum(tf.cast(sizes > 0, tf.int32), axis=1)  # (B,)
    order, drawn = draw_ngrams(count, width, seed, longest, shares)  # (B, W)
    before = tf.pad(tf.cumsum(sizes, axis=1), [[0, 0], [1, 0]])  # (B, W + 1): tokens before each word
    reach = [tf.gather(before, tf.minimum(order + n, width), batch_dims=1) for n in range(1, longest + 1)]
    lengths = tf.stack(reach, axis=2) - tf.gather(before, order, batch_dims=1)[:, :, None]  # (B, W, N): in tokens
    lengths = tf.where(tf.range(longest) < drawn[:, :, None], lengths, NEVER)
    smallest = tf.reduce_min(tf.where(sizes > 0, sizes, NEVER), axis=1)
    by_step = [tf.transpose(order), tf.transpose(lengths, [1, 0, 2])]  # (W, B), (W, B, N)
    place = tf.range(width)[None, :]

    def unfinished(step, taken, left):
        return tf.reduce_any((left >= smallest) & (step < count))

    def next_start(step, taken, left):
        first, sizes_of = by_step[0][step], by_step[1][step]  # (B,), (B, N)
        fits = sizes_of <= left[:, None]
        words = tf.reduce_sum(tf.cast(fits, tf.int32), axis=1)
        inside = (place >= first[:, None]) & (place < (first + words)[:, None])
        free = (step < count) & ~tf.reduce_any(inside & taken, axis=1)
        size = tf.reduce_max(tf.where(fits & free[:, None], sizes_of, 0), axis=1)
        return step + 1, taken | inside & free[:, None], left - size

    state = [tf.constant(0), tf.zeros_like(sizes, tf.bool), budget]
    _, taken, _ = tf.while_loop(unfinished, next_start, state)
    return tf.gather(taken, word, batch_dims=1) & maskable


def draw_ngrams(count, width, seed, longest: int, shares: Sequence[float] | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns first words in random order, and the n drawn for each, both int (B, W); only the first `count` are meant."""
    exists = tf.range(width)[None, :] < count[:, None]
    order = tf.argsort(tf.where(exists, uniform(fold(seed, 0), width), 2.0), axis=1, stable=True)
    total = np.cumsum(1 / np.arange(1, longest + 1) if shares is None else shares).astype(np.float32)
    available = tf.clip_by_value(count[:, None] - order, 1, longest)
    drawn = uniform(fold(seed, 1), width) * tf.gather(total, available - 1)
    return order, 1 + tf.reduce_sum(tf.cast(drawn[:, :, None] >= total[:-1], tf.int32), axis=2)


def mask_spans(
    vocabulary: Vocabulary,
    rate: float = 0.15,
    num_predictions: int = 20,
    p: float = 0.2,
    longest: int = 10,
    units: str = "word_start",
) -> Op:
    """Hides spans of whole words with geometric lengths (SpanBERT; Joshi et al., 2019, section 3.1).

    As in the released code: ceil(rate * n) of n tokens are hidden, exactly, special tokens not counted; a span opens
    with the word of a random visible token and takes as many words as drawn, so the last one may be cut where the
    budget ends. Spans that touch become one, and all tokens of a span share one fate. Spans do not cross special
    tokens, and random replacements are never special tokens.

    Reads:  token_ids, maskable, and `units`, all (B, L); seed (B,).
    Writes: as `mask_ngrams`.
    """
    mask_id, drawable = vocabulary[MASK], ordinary_ids(vocabulary)

    def op(features):
        features, seed = take_seed(features)
        maskable = features["maskable"]
        budget = budget_of({"padding_mask": maskable}, rate, num_predictions, tf.math.ceil)
        length = tf.shape(maskable)[1]
        word, _ = words_of(features[units], maskable)  # (B, L)
        place = tf.broadcast_to(tf.range(length)[None, :], tf.shape(word))
        first = per_group(tf.math.unsorted_segment_min, tf.where(maskable, place, NEVER), word)  # (B, W)
        last = per_group(tf.math.unsorted_segment_max, tf.where(maskable, place, -1), word)
        words = geometric(uniform(fold(seed, 0), length), p, longest)  # (B, L)
        last_word = tf.minimum(word + words, tf.reduce_max(word, axis=1, keepdims=True) + 1) - 1
        begin = tf.maximum(tf.gather(first, word, batch_dims=1), run_begins(maskable))
        end = tf.minimum(tf.gather(last, last_word, batch_dims=1) + 1, run_ends(maskable))
        when = cover(begin, end, maskable, budget, fold(seed, 1))
        in_order = tf.where(when < NEVER, when * length + place, tf.int32.max)
        chosen = (when < NEVER) & (ranks(in_order) < budget[:, None])
        return hide(features, chosen, num_predictions, mask_id, drawable, fold(seed, 2), run_numbers(chosen))

    return op


def geometric(drawn: tf.Tensor, p: float, longest: int) -> tf.Tensor:
    """Returns uniform numbers as lengths from 1 to `longest`, int32: P(n) proportional to (1 - p)^(n - 1)."""
    chances = (1 - p) ** np.arange(longest)
    ends = np.cumsum(chances / chances.sum()).astype(np.float32)[:-1]
    return 1 + tf.reshape(tf.searchsorted(ends, tf.reshape(drawn, [-1]), side="right"), tf.shape(drawn))


def mask_token_ngrams(vocabulary: Vocabulary, rate: float = 0.15, num_predictions: int = 20, share: float = 0.2) -> Op:
    """Hides one token, or with probability `share` two or three in a row (UniLM; Dong et al., 2019, section 2.4).

    As in the released code: min(P, max(1, round(rate * eligible))) tokens; starts in random order, those hidden
    already left out; where the last n-gram overshoots, a random subset of all is kept, which can cut an n-gram. Each
    token has its own fate. N-grams end at special tokens, which are neither hidden nor drawn.

    Reads:  token_ids, maskable, all (B, L); seed (B,).
    Writes: as `mask_ngrams`.
    """
    mask_id, drawable = vocabulary[MASK], ordinary_ids(vocabulary)

    def op(features):
        features, seed = take_seed(features)
        maskable = features["maskable"]
        budget = budget_of({"padding_mask": maskable}, rate, num_predictions)
        length = tf.shape(maskable)[1]
        drawn = uniform(fold(seed, 0), length)
        size = tf.where(drawn < share / 2, 2, tf.where(drawn < share, 3, 1))
        place = tf.broadcast_to(tf.range(length)[None, :], tf.shape(size))
        when = cover(place, tf.minimum(place + size, run_ends(maskable)), maskable, budget, fold(seed, 1))
        covered = when < NEVER
        chosen = covered & (ranks(tf.where(covered, uniform(fold(seed, 2), length), 2.0)) < budget[:, None])
        return hide(features, chosen, num_predictions, mask_id, drawable, fold(seed, 3))

    return op


def cover(begin, end, maskable, budget, seed) -> tf.Tensor:
    """Lays intervals in random order of their anchors until `budget` tokens are covered or more.

    An anchor that is covered already is passed over; this is the same as drawing anchors until a visible one comes.

    Args:
        begin, end: int (B, L), the interval that each token would lay as the anchor; inside one run of `maskable`.

    Returns:
        int (B, L), the step in which each token was covered, NEVER where it was not.
    """
    length = tf.shape(maskable)[1]
    order = tf.argsort(tf.where(maskable, uniform(seed, length), 2.0), axis=1, stable=True)  # (B, L)
    anchors, begins, ends = (
        tf.transpose(x) for x in (order, tf.gather(begin, order, batch_dims=1), tf.gather(end, order, batch_dims=1))
    )  # (L, B)
    count = tf.reduce_sum(tf.cast(maskable, tf.int32), axis=1)  # (B,)
    place = tf.range(length)[None, :]

    def unfinished(step, when, covered):
        return tf.reduce_any((covered < budget) & (step < count))

    def next_anchor(step, when, covered):
        visible = tf.gather(when, anchors[step], batch_dims=1) == NEVER
        lays = visible & (covered < budget) & (step < count)
        inside = (place >= begins[step][:, None]) & (place < ends[step][:, None])
        new = inside & (when == NEVER) & lays[:, None]
        return step + 1, tf.where(new, step, when), covered + tf.reduce_sum(tf.cast(new, tf.int32), axis=1)

    state = [tf.constant(0), tf.fill(tf.shape(maskable), NEVER), tf.zeros_like(budget)]
    return tf.while_loop(unfinished, next_anchor, state)[1]


def run_begins(inside: tf.Tensor) -> tf.Tensor:
    """Returns where the run of True that a place belongs to begins: int (B, L); meaningless where `inside` is False."""
    length = tf.shape(inside)[1]
    return length - tf.reverse(run_ends(tf.reverse(inside, [1])), [1])
