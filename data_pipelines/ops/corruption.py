"""Hides random tokens, whole words, phrases or entities; vectorised over a batch and drawn from `seed`.

The siblings: `spans` (n-grams and spans), `fragment`, `infilling` and `sentinels` (encoder-decoders), `permutation`.
"""

import numpy as np
import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.cloze import budget_of, hide, ordinary_ids, stochastic_budget_of
from data_pipelines.ops.compose import Op
from data_pipelines.ops.groups import inverse, words_of
from data_pipelines.ops.seeds import fold, take_seed, uniform
from data_pipelines.text.vocabulary import MASK, Vocabulary

REPLACE_UNITS = ("token", "word")


def mask_whole_words(
    mask_id: int,
    drawable: int | np.ndarray,
    rate: float = 0.15,
    num_predictions: int = 20,
    units: str | None = "word_start",
    replace_unit: str = "token",
) -> Op:
    """Hides random whole words behind `mask_id` (Google's whole-word masking; Cui et al., 2019, section 2).

    Words are taken in random order until min(num_predictions, max(1, round(rate * length))) tokens are hidden, where
    the length counts special tokens; a word that would exceed this is skipped. Of the hidden tokens 80 % become
    `mask_id`, 10 % stay, and 10 % are drawn anew; Google's code draws from the whole vocabulary, special tokens included.

    Reads:  token_ids, padding_mask, maskable, and word_start, all (B, L); seed (B,).
    Writes: token_ids (B, L); mask_positions, labels (B, P), ascending, then zeros; label_weights float32 (B, P).

    Args:
        drawable: the ids that a random token may be, or how many: all below.
        units: the feature that is 1 where a unit of masking opens; None hides single tokens.
        replace_unit: `token`, each hidden token draws its own fate, as in Google's code, or `word`, all tokens of a
            word share one.

    Raises:
        UsageError: `replace_unit` is neither.
    """
    if replace_unit not in REPLACE_UNITS:
        raise UsageError(f"`replace_unit` must be one of {', '.join(REPLACE_UNITS)}. Received: {replace_unit!r}.")

    def op(features):
        features, seed = take_seed(features)
        maskable = features["maskable"]
        starts = tf.ones_like(features["token_ids"]) if units is None else features[units]
        chosen = choose_words(starts, maskable, budget_of(features, rate, num_predictions), fold(seed, 0))  # (B, L)
        together = words_of(starts, maskable)[0] if replace_unit == "word" else None
        return hide(features, chosen, num_predictions, mask_id, drawable, fold(seed, 1), together)

    return op


def mask_tokens(mask_id: int, drawable: int | np.ndarray, rate: float = 0.15, num_predictions: int = 20) -> Op:
    """Hides random single tokens (Devlin et al., 2018, section 3.1); reads and writes as `mask_whole_words`."""
    return mask_whole_words(mask_id, drawable, rate, num_predictions, units=None)


def mask_tokens_with_stochastic_rounding(
    vocabulary: Vocabulary, rate: float = 0.15, num_predictions: int = 78, mask_specials: bool = False
) -> Op:
    """Hides `rate` of the tokens that may be hidden, on average and whatever the length, as fairseq does (RoBERTa; Liu et al., 2019,
    section 4.1). Random replacements are never special tokens. Reads and writes as `mask_tokens`.

    Args:
        mask_specials: whether special tokens may be hidden and count, as in fairseq.
    """
    mask_id, drawable = vocabulary[MASK], ordinary_ids(vocabulary)

    def op(features):
        features, seed = take_seed(features)
        maskable = features["padding_mask"] if mask_specials else features["maskable"]
        budget = stochastic_budget_of(maskable, rate, num_predictions, fold(seed, 2))
        chosen = choose_words(tf.ones_like(features["token_ids"]), maskable, budget, fold(seed, 0))  # (B, L)
        return hide(features, chosen, num_predictions, mask_id, drawable, fold(seed, 1))

    return op


def mask_units(vocabulary: Vocabulary, units: str | None, rate: float = 0.15, num_predictions: int = 20) -> Op:
    """Hides phrases or entities whole, each with probability `rate` (ERNIE 1.0; Sun et al., 2019, section 3.2).

    The three stages of the paper are three ops: `units` None, `phrase_start`, `entity_start`. As in the released code
    every unit is drawn for itself, so a row may have no target at all, and each token has its own fate. A unit for
    which no slot is left stays visible. Random replacements are never special tokens.

    Reads:  token_ids, padding_mask, maskable, and `units`, all (B, L); seed (B,).
    Writes: as `mask_whole_words`.
    """
    mask_id, drawable = vocabulary[MASK], ordinary_ids(vocabulary)

    def op(features):
        features, seed = take_seed(features)
        starts = tf.ones_like(features["token_ids"]) if units is None else features[units]
        slots = tf.fill(tf.shape(starts)[:1], num_predictions)
        chosen = choose_words(starts, features["maskable"], slots, fold(seed, 0), share=rate)
        return hide(features, chosen, num_predictions, mask_id, drawable, fold(seed, 1))

    return op


def choose_words(
    starts: tf.Tensor, maskable: tf.Tensor, budget: tf.Tensor, seed: tf.Tensor, share: float = 1.0
) -> tf.Tensor:
    """Draws words in random order until `budget` tokens are taken; a word that would exceed it is skipped.

    Equal to walking through the shuffled words one by one, but in a few passes over all of them: each takes the words
    that fit by cumulative size, and rejects the first that does not.

    Args:
        starts: int (B, L), 1 where a word opens.
        maskable: bool (B, L), False on special tokens and padding, which never count.
        budget: int (B,).
        seed: uint64 (B,).
        share: the probability that a word takes part at all.

    Returns:
        bool (B, L), True on the tokens of chosen words.
    """
    word, sizes = words_of(starts, maskable)  # (B, L), (B, W)
    drawn = tf.where(sizes > 0, uniform(seed, tf.shape(starts)[1]), 2.0)
    sizes = tf.where(drawn < share, sizes, 0)
    order = tf.argsort(drawn, axis=1, stable=True)  # (B, W)
    sizes = tf.gather(sizes, order, batch_dims=1)

    def fits(taken, open_, left):
        return tf.reduce_any(open_)

    def one_pass(taken, open_, left):
        reach = tf.cumsum(tf.where(open_, sizes, 0), axis=1)
        take = open_ & (reach <= left[:, None])
        left = left - tf.reduce_sum(tf.where(take, sizes, 0), axis=1)
        return taken | take, open_ & ~take & (sizes <= left[:, None]), left

    nothing = tf.zeros_like(sizes, tf.bool)
    taken, _, _ = tf.while_loop(fits, one_pass, [nothing, (sizes > 0) & (sizes <= budget[:, None]), budget])
    taken = tf.gather(taken, inverse(order), batch_dims=1)  # by word again
    return tf.gather(taken, word, batch_dims=1) & maskable
