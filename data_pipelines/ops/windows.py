"""Words and the windows around them, for skip-gram, CBOW and fastText (Mikolov et al., 2013; Bojanowski et al., 2017)."""

import math

import numpy as np
import tensorflow as tf

from data_pipelines.ops.compose import Op
from data_pipelines.ops.seeds import fold, take_seed, uniform

BLOCK = 32  # words are read in blocks of so many, `xmodels.layers.word_windows`


def keep_probabilities(counts: np.ndarray, sample: float = 1e-3) -> np.ndarray:
    """Returns how often each word is kept: min(1, (sqrt(f / s) + 1) * s / f), f its share of the text (word2vec.c). float64
    (V,)"""
    threshold = sample * max(1, counts.sum())
    counts = np.maximum(counts, 1e-9)
    return np.minimum(1.0, (np.sqrt(counts / threshold) + 1.0) * threshold / counts) if sample else np.ones(len(counts))


def noise_distribution(counts: np.ndarray, exponent: float = 0.75) -> np.ndarray:
    """Returns the probability of each word as a negative, counts ** exponent; words that never occur have none. float64 (V,)"""
    weights = np.where(counts > 0, np.maximum(counts, 1.0) ** exponent, 0.0)
    return weights / max(weights.sum(), 1e-12)


def num_slots(sequence_length: int, shares: np.ndarray, keep: np.ndarray) -> int:
    """Returns how many of the words of an example there is room for, N: four standard deviations above the mean of those that stay,
    filled up to whole blocks."""
    mean = float(np.sum(shares * keep))
    wanted = sequence_length * mean + 4.0 * math.sqrt(sequence_length * mean * (1.0 - min(mean, 1.0)))
    return min(sequence_length, BLOCK * math.ceil(wanted / BLOCK)) if wanted else sequence_length


def num_blocks(slots: int) -> int:
    """Returns K, the number of blocks of a row of so many words."""
    return 1 if slots % BLOCK else slots // BLOCK


class WordWindows:
    """Chooses words that stay, the window of each, and negatives, anew in every epoch; an op.

    Rare words stay, frequent ones are left out before windows are formed, so these reach further; a window has 1 to `window`
    words to each side and does not reach across an end of text.

    Reads:  token_ids (B, N), segment_lengths (B, 2), seed (B,), of runs of at most `sequence_length` + 1 pieces.
    Writes: token_ids, padding_mask (B, L), the text that was read; center_ids (B, N), the words that stay, at the left;
            window_starts, window_ends (B, N), the first place of the window of each and that behind it, 0 where there is no word;
            negative_ids (B, K S), of the K blocks one behind the other.

    Args:
        shares: the share of each word in the text, (V,).
        keep: of `keep_probabilities`; 0 for what is no word.
        noise: of `noise_distribution`.
        negatives: S, drawn for all words of a block together; 0 for none.
        ends: ids at which a text ends.
        further: an op that adds features of `center_ids`, such as `tree_paths`.

    Attributes:
        is_compiled: whether Numba draws, before the op is traced: the same numbers in less time, for batches that this process
            reads.
    """

    def __init__(
        self, sequence_length: int, shares: np.ndarray, keep: np.ndarray, noise: np.ndarray, window: int = 5, negatives: int = 32,
        ends: tuple = (), further: Op | None = None,
    ):  # fmt: skip
        self.length, self.slots = sequence_length, num_slots(sequence_length, shares, keep)
        self.keep, self.cumulative, self.window = keep.astype(np.float32), cumulate(noise), window
        self.negatives = num_blocks(self.slots) * negatives
        self.ends, self.further, self.is_compiled = ends, further, False

    def __call__(self, features):
        features, seed = take_seed(features)
        kept = {name: features[name] for name in ("seed", "example_weights") if name in features}
        found = kept | (self._drawn_by_numba if self.is_compiled else self._drawn)(features, seed)
        return self.further(found) if self.further else found

    def _drawn(self, features, seed):
        token_ids, real = _text(features, self.length)
        words, parts, there = self._subsampled(token_ids, real, uniform(fold(seed, 0), self.length))
        reach = 1 + tf.cast(uniform(fold(seed, 1), self.slots) * self.window, tf.int32)  # (B, N)
        place = tf.range(self.slots)[None, :]
        starts = tf.maximum(place - reach, tf.searchsorted(parts, parts, side="left"))
        ends = tf.minimum(place + reach + 1, tf.searchsorted(parts, parts, side="right"))
        found = {
            "token_ids": token_ids, "padding_mask": real, "center_ids": words,
            "window_starts": tf.where(there, starts, 0), "window_ends": tf.where(there, ends, 0),
        }  # fmt: skip
        if self.negatives:
            found["negative_ids"] = draw_words(self.cumulative, fold(seed, 2), self.negatives)
        return found

    def _drawn_by_numba(self, features, seed):
        from data_pipelines.ops.windows_compiled import draw, make_guide

        ends, guide = np.array(self.ends, np.int64), make_guide(self.cumulative)

        def call(token_ids, pieces, seeds):
            return draw(
                token_ids, pieces, seeds, self.keep, self.cumulative, guide, ends, self.length, self.slots, self.window,
                self.negatives,
            )  # fmt: skip

        given = features["token_ids"], tf.reduce_sum(features["segment_lengths"], axis=1), seed
        wanted = {
            "token_ids": (tf.int32, self.length), "padding_mask": (tf.bool, self.length), "center_ids": (tf.int32, self.slots),
            "window_starts": (tf.int32, self.slots), "window_ends": (tf.int32, self.slots), "negative_ids": (tf.int32, self.negatives),
        }  # fmt: skip
        arrays = tf.numpy_function(call, given, [kind for kind, _ in wanted.values()], stateful=False)
        found = {
            name: tf.ensure_shape(x, [None, width])
            for x, (name, (_, width)) in zip(arrays, wanted.items(), strict=True)
        }
        return found if self.negatives else {name: x for name, x in found.items() if name != "negative_ids"}

    def _subsampled(self, token_ids, real, draws):
        """Returns the words that stay, moved to the left, the texts in which they stand, and where there are words: (B, N)."""
        stay = real & (draws < tf.gather(tf.constant(self.keep), token_ids))
        ended = tf.reduce_any(token_ids[..., None] == tf.constant(self.ends, tf.int32), axis=-1) & real
        there = tf.range(self.slots)[None, :] < tf.reduce_sum(tf.cast(stay, tf.int32), axis=1, keepdims=True)
        parts = tf.where(there, _left(tf.cumsum(tf.cast(ended, tf.int32), axis=1), stay, self.slots), self.length + 1)
        return _left(token_ids, stay, self.slots), parts, there


def tree_paths(nodes: np.ndarray, codes: np.ndarray, shares: np.ndarray) -> Op:
    """Adds the way to each word in a tree of `huffman.paths`.

    Args:
        shares: of the words among those that stay, (V,).

    Reads:  center_ids (B, N).
    Writes: node_ids (B, N, T), node_codes (B, N, T); node_shares float32 (B, N, T), the share of the words whose ways pass a node.
    """
    passing = np.zeros(nodes.max() + 1)
    np.add.at(passing, nodes, np.where(codes >= 0, shares[:, None], 0.0))
    found = {"node_ids": nodes, "node_codes": codes.astype(np.int32), "node_shares": passing[nodes].astype(np.float32)}

    def op(features):
        return {**features, **{name: tf.gather(table, features["center_ids"]) for name, table in found.items()}}

    return op


def word_rows(rows: list[int], sizes: list[int], sequence_length: int, kept: np.ndarray) -> Op:
    """Adds the rows that make up each word, such as those of its parts.

    There is room for four standard deviations more than the mean of an example; what is beyond is left out.

    Args:
        rows: of all words of the vocabulary, one behind the other.
        sizes: how many each has.
        kept: how often a place of the text holds each word and keeps it, (V,).

    Reads:  center_ids, window_ends (B, N).
    Writes: row_ids (B, M), row_places (B, M), the word of each row, N where there is none.
    """
    numbers = np.array(sizes, np.float64)
    mean = sequence_length * (numbers @ kept)
    spread = math.sqrt(sequence_length * (numbers**2 @ kept))
    room = 8 * math.ceil((mean + 4.0 * spread + 8) / 8)
    flat = np.array(rows, np.int32)
    starts = np.cumsum([0, *sizes[:-1]]).astype(np.int32)
    lengths = np.array(sizes, np.int32)

    def op(features):
        centers = features["center_ids"]
        slots = centers.shape[1]
        there = features["window_ends"] > 0
        size = tf.where(there, tf.gather(lengths, centers), 0)  # (B, N)
        ends = tf.cumsum(size, axis=1)
        column = tf.range(room)[None, :] + tf.zeros_like(centers[:, :1])  # (B, M)
        place = tf.searchsorted(ends, column, side="right")
        word = tf.minimum(place, slots - 1)
        first = tf.gather(tf.gather(starts, centers), word, batch_dims=1)
        inside = column - tf.gather(ends - size, word, batch_dims=1)
        found = tf.where(place < slots, tf.gather(flat, tf.where(place < slots, first + inside, 0)), 0)
        return {**features, "row_ids": found, "row_places": place}

    return op


def cumulate(noise: np.ndarray) -> np.ndarray:
    """Returns the sums of the probabilities up to each word, for `draw_words`; the last one is 1 in spite of rounding. float64 (V,)"""
    cumulative = np.cumsum(noise)
    cumulative[-1] = max(cumulative[-1], 1.0)
    return cumulative


def draw_words(cumulative: np.ndarray, seed, count: int):
    """Returns words by chance, int32 (B, count), drawn by inversion. 53 random bits, since 24 would never name the rarest of a million
    words.

    Args:
        cumulative: of `cumulate`.
        seed: uint64 (B,).
    """
    bits = fold(seed[:, None], tf.range(count, dtype=tf.int64)[None, :])
    draws = tf.cast(tf.bitwise.right_shift(bits, tf.constant(11, tf.uint64)), tf.float64) * 2.0**-53
    found = tf.searchsorted(tf.constant(cumulative), tf.reshape(draws, [-1]), side="right")
    return tf.reshape(tf.minimum(found, len(cumulative) - 1), tf.shape(bits))


def _text(features, length: int):
    """Returns the pieces of a run but for the last, with which the next run begins: (B, L), and which are real."""
    pieces = tf.reduce_sum(tf.cast(features["segment_lengths"], tf.int32), axis=1, keepdims=True)  # (B, 1)
    token_ids = tf.cast(features["token_ids"], tf.int32)[:, :length]
    token_ids = tf.pad(token_ids, [[0, 0], [0, length - tf.shape(token_ids)[1]]])
    real = tf.range(length)[None, :] < pieces - 1
    return tf.ensure_shape(tf.where(real, token_ids, 0), [None, length]), tf.ensure_shape(real, [None, length])


def _left(values, chosen, width: int):
    """Returns the chosen values of each row, (B, N), at its left; at most `width` of them, and zeros."""
    return tf.ensure_shape(tf.ragged.boolean_mask(values, chosen).to_tensor(0, shape=[None, width]), [None, width])
