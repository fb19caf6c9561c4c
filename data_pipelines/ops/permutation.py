"""XLNet's permutation language modelling with partial prediction (Yang et al., 2019, sections 2.2 and 2.3).

No token changes: what a target may see is said by masks. The spans to predict follow the released `_sample_mask`, the
masks its `_local_perm`.
"""

import numpy as np
import tensorflow as tf

from data_pipelines.ops.cloze import positions_of
from data_pipelines.ops.compose import Op
from data_pipelines.ops.groups import ranks
from data_pipelines.ops.seeds import fold, take_seed, uniform

LONGEST = 5  # tokens of a span
CONTEXT = 6  # a span of n tokens is drawn out of a context of this many times n


def permute(
    num_predictions: int = 85, reuse_length: int = 0, permutation_size: int | None = None, context: int = CONTEXT
) -> Op:
    """Draws targets and a factorisation order, and writes who may see whom.

    Targets and special tokens are ordered by a random permutation, the other tokens come before them all. A target
    sees what comes before it, a special token itself too. The first `reuse_length` tokens and the rest are drawn
    apart; the first do not see the rest, the rest sees all of the first. A full sequence has just `num_predictions`
    targets, less the special tokens drawn, a shorter one in proportion.

    Reads:  token_ids, padding_mask, maskable (False on special tokens) and word_start, all (B, L); seed (B,); where it is
        there, is_reversed (B,), 1 for rows that read backwards, whose spans are drawn as if they read forwards.
    Writes: mask_positions, labels (B, P), ascending, then zeros (the target mapping); label_weights float32 (B, P);
        content_mask bool (B, L, L), True where a token may look in the content stream (itself included);
        query_mask bool (B, P, L), True where a target may look in the query stream (never itself). The original's
        `perm_mask` is the opposite of `content_mask`, but for the diagonal.
    Drops:  maskable.

    Args:
        permutation_size: the order is permuted within blocks of this many tokens; None: within each part.
        context: a span of n tokens is drawn out of this many times n (`mask_alpha / mask_beta` of the released code).
    """

    def op(features):
        features, seed = take_seed(features)
        real, maskable = features["padding_mask"], features.pop("maskable")
        length = real.shape[1]
        later = num_predictions // 2 if reuse_length else num_predictions
        parts = [(reuse_length, length, later)]
        parts = [(0, reuse_length, num_predictions - later), *parts] if reuse_length else parts
        turned = turn(features["is_reversed"]) if "is_reversed" in features else lambda values: values
        drawn, order = [], []
        for number, (begin, end, goal) in enumerate(parts):
            part = fold(seed, number)
            starts, inside = turned(features["word_start"][:, begin:end]), turned(real[:, begin:end])
            drawn.append(turned(sample(starts, inside, goal, fold(part, 0), context)))
            order.append(block_order(end - begin, permutation_size or end - begin, fold(part, 1)))
        drawn = tf.concat(drawn, axis=1)
        blind = two_stream_mask(tf.concat(order, axis=1), drawn, ~maskable, reuse_length) | ~real[:, None, :]
        positions, weights = positions_of(drawn & maskable, num_predictions)
        features["mask_positions"] = positions
        features["labels"] = tf.where(weights > 0, tf.gather(features["token_ids"], positions, batch_dims=1), 0)
        features["label_weights"] = weights
        features["query_mask"] = ~tf.gather(blind, positions, batch_dims=1)
        features["content_mask"] = ~blind | tf.eye(length, dtype=tf.bool)
        return features

    return op


def turn(is_reversed):
    """Returns a function that turns (B, L) around in the rows of which `is_reversed`, (B,), is 1."""
    backwards = tf.cast(is_reversed, tf.bool)[:, None]
    return lambda values: tf.where(backwards, tf.reverse(values, [1]), values)


def sample(starts, real, goal: int, seed, context: int = CONTEXT) -> tf.Tensor:
    """Draws `goal` tokens to predict, in spans where there is room, bool (B, L).

    A span of n of up to 5 tokens, with probability proportional to 1 / n, begins at the first word behind a random
    place of a context of `context` times n tokens. What is missing in the end is filled up with single tokens. As in the released
    code special tokens may be drawn (they count, but are not predicted), and n counts tokens although the paper may
    suggest words.

    Args:
        starts: int (B, L), 1 where a word opens.
        real: bool (B, L), False on padding, which comes last.
        goal: for a row without padding; a shorter row gets its share.
    """
    length = real.shape[1]
    steps = length // (1 + context) + 1
    count = tf.reduce_sum(tf.cast(real, tf.int32), axis=1)  # (B,)
    goal = tf.minimum(count, tf.cast(tf.math.ceil(tf.cast(count * goal, tf.float64) / length), tf.int32))
    ends = np.cumsum(1 / np.arange(1, LONGEST + 1))
    sizes = uniform(fold(seed, 0), steps)[:, :, None] >= (ends[:-1] / ends[-1]).astype(np.float32)
    sizes = tf.transpose(1 + tf.reduce_sum(tf.cast(sizes, tf.int32), axis=2))  # (steps, B)
    offsets = tf.transpose(uniform(fold(seed, 1), steps))
    chosen = span_walk(next_starts(starts, real), count, goal, sizes, offsets, context)
    missing = goal - tf.reduce_sum(tf.cast(chosen, tf.int32), axis=1)
    lot = tf.where(real & ~chosen, uniform(fold(seed, 2), length), 2.0)
    return chosen | (ranks(lot) < missing[:, None])


def next_starts(starts, real) -> tf.Tensor:
    """Returns the first word that opens at each place or behind it, int (B, L + 1); L where there is none."""
    length = starts.shape[1]
    opens = (starts > 0) & real
    place = tf.sort(tf.where(opens, tf.range(length)[None, :], length), axis=1)
    before = tf.cumsum(tf.pad(tf.cast(opens, tf.int32), [[0, 0], [1, 0]]), axis=1)  # (B, L + 1)
    return tf.gather(tf.pad(place, [[0, 0], [0, 1]], constant_values=length), before, batch_dims=1)


def span_walk(next_start, count, goal, sizes, offsets, context: int = CONTEXT) -> tf.Tensor:
    """Walks along the text from context to context, all rows at once, and marks the spans: bool (B, L).

    Args:
        sizes, offsets: (steps, B), the length of each span, and where in its context it begins, in [0, 1).
    """
    length = next_start.shape[1] - 1
    place = tf.range(length)[None, :]

    def unfinished(step, chosen, at, taken):
        return (step < tf.shape(sizes)[0]) & tf.reduce_any(at < count)

    def next_context(step, chosen, at, taken):
        n = tf.minimum(sizes[step], goal - taken)  # (B,), 0 where the goal is reached
        before = tf.cast(offsets[step] * tf.cast(n * context, tf.float32), tf.int32)
        begin = tf.gather(next_start, tf.minimum(at + before, length), batch_dims=1)
        end = begin + n
        fits = (at < count) & (n > 0) & (end < count)
        inside = (place >= begin[:, None]) & (place < end[:, None])
        at = tf.where(fits, end + n * context - before, count)
        return step + 1, chosen | inside & fits[:, None], at, taken + tf.where(fits, n, 0)

    nothing = tf.fill([tf.shape(count)[0], length], False)
    state = [tf.constant(0), nothing, tf.zeros_like(count), tf.zeros_like(count)]
    return tf.while_loop(unfinished, next_context, state)[1]


def block_order(length: int, block: int, seed) -> tf.Tensor:
    """Returns a random order, int (B, length): one permutation, repeated in each block of tokens, later blocks later."""
    place = np.arange(length)
    return tf.gather(ranks(uniform(seed, block)), place % block, axis=1) + place // block * block


def two_stream_mask(order, drawn, special, reuse_length: int = 0) -> tf.Tensor:
    """Returns `perm_mask`, bool (B, L, L): True where row i may not see column j.

    Args:
        order: int (B, L), the place of each token in the order of its part.
        drawn, special: bool (B, L).
    """
    ordered = drawn | special
    key = tf.where(ordered, order, -1)
    query = tf.where(drawn & ~special, key, key + 1)
    blind = (query[:, :, None] <= key[:, None, :]) & ordered[:, None, :]
    later = np.arange(order.shape[1]) >= reuse_length
    reuse_to_new, new_to_reuse = ~later[:, None] & later[None, :], later[:, None] & ~later[None, :]
    return (blind | reuse_to_new) & ~new_to_reuse
