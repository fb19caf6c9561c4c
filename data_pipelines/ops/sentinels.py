"""T5's span corruption (Raffel et al., 2019, section 3.1.4), as the released preprocessors make it."""

import itertools
from collections.abc import Sequence

import tensorflow as tf

from data_pipelines.errors import UsageError
from data_pipelines.ops.compose import Op
from data_pipelines.ops.framing import without_starts
from data_pipelines.ops.groups import compact
from data_pipelines.ops.seeds import fold, take_seed, uniform
from data_pipelines.text.vocabulary import Vocabulary


def corrupt_spans(
    sentinels: Sequence[int], eos_id: int, length: int, density: float = 0.15, mean: float = 3.0, pad_id: int = 0
) -> Op:
    """Makes one sentinel of each hidden span in the input; the target is every sentinel followed by its span.

    Of n tokens round(density * n) are hidden, at least one and not all, in max(1, round(hidden / mean)) spans. Hidden
    and visible runs alternate, visible ones first, and all divisions into that many runs are equally likely. So the
    lengths depend on n only, and there is no sentinel behind the last span. Both sides end with `eos_id`.

    Reads:  token_ids and padding_mask, (B, length), a text without special tokens; seed (B,).
    Writes: token_ids, padding_mask (B, I); target_ids, labels (B, T), label_weights float32 (B, T), with I and T
        what `corrupted_lengths` gives; the decoder starts with `pad_id`.

    Args:
        sentinels: their ids, in order of use.

    Raises:
        UsageError: there are fewer sentinels than spans in a text of `length` tokens.
    """
    most = num_spans(length, density, mean)[1]
    if len(sentinels) < most:
        raise UsageError(
            f"A text of {length} tokens has {most} hidden spans, and each needs its own sentinel. "
            f"Received {len(sentinels)} sentinels."
        )
    input_length, target_length = corrupted_lengths(length, density, mean)

    def op(features):
        features, seed = take_seed(without_starts(features))
        token_ids, real = features["token_ids"], features["padding_mask"]
        n = tf.reduce_sum(tf.cast(real, tf.int32), axis=1)  # (B,)
        hidden, run = noise(n, token_ids.shape[1], seed, density, mean)
        marks = tf.gather(tf.constant(list(sentinels), tf.int32), tf.minimum(run // 2, len(sentinels) - 1))
        opens = tf.pad(run[:, 1:] != run[:, :-1], [[0, 0], [1, 0]], constant_values=True) & real
        inputs = tf.where(hidden, marks, token_ids), real & (~hidden | opens)
        features["token_ids"], features["padding_mask"] = append_end(*inputs, input_length, eos_id, pad_id)
        # In the target the roles change: visible runs become the sentinels.
        text = tf.where(hidden, token_ids, marks), real & (hidden | opens)
        labels, used = append_end(*text, target_length, eos_id, pad_id)
        features["labels"], features["label_weights"] = labels, tf.cast(used, tf.float32)
        features["target_ids"] = tf.pad(labels[:, :-1], [[0, 0], [1, 0]], constant_values=pad_id)
        return features

    return op


def sentinels_of(vocabulary: Vocabulary, count: int) -> list[int]:
    """Returns the ids of `<extra_id_0>`, `<extra_id_1>`, ...; of a vocabulary without these its last `count` tokens, the last
    one first.

    The released code always takes the last ones, which are the sentinels where the vocabulary has such.
    """
    named = [f"<extra_id_{index}>" for index in range(len(vocabulary))]
    found = [vocabulary.ids[name] for name in itertools.takewhile(vocabulary.ids.__contains__, named)]
    return found or list(range(len(vocabulary) - 1, max(len(vocabulary) - 1 - count, -1), -1))


def num_spans(n: int, density: float = 0.15, mean: float = 3.0) -> tuple[int, int]:
    """Returns how many of `n` tokens are hidden, and in how many spans."""
    hidden = max(0, min(max(round(n * density), 1), n - 1))
    return hidden, min(max(1, round(hidden / mean)), hidden, n - hidden)


def corrupted_lengths(n: int, density: float = 0.15, mean: float = 3.0) -> tuple[int, int]:
    """Returns the longest input and target of texts of up to `n` tokens, end of sequence included: 568 gives 512 and 114."""
    sizes = [(m, *num_spans(m, density, mean)) for m in range(1, n + 1)]
    return max(m - hidden + spans + 1 for m, hidden, spans in sizes), max(h + s for _, h, s in sizes) + 1


def noise(n, length: int, seed, density: float, mean: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns which tokens are hidden, bool (B, L), and the number of the run of each token: even visible, odd hidden."""
    table = [num_spans(m, density, mean) for m in range(length + 1)]
    hidden, spans = tf.unstack(tf.gather(tf.constant(table), n), axis=1)  # (B,)
    most = max(1, num_spans(length, density, mean)[1])
    visible_ends = divide(n - hidden, spans, most, length, fold(seed, 0))  # (B, S)
    hidden_ends = divide(hidden, spans, most, length, fold(seed, 1))
    started = tf.pad(hidden_ends[:, :-1], [[0, 0], [1, 0]])
    ends = tf.stack([visible_ends + started, visible_ends + hidden_ends], axis=2)  # (B, S, 2)
    place = tf.broadcast_to(tf.range(length)[None, :], [tf.shape(n)[0], length])
    run = tf.searchsorted(tf.reshape(ends, [-1, 2 * most]), place, side="right")  # (B, L)
    return (run % 2 == 1) & (place < n[:, None]), run


def divide(items, parts, most: int, length: int, seed) -> tf.Tensor:
    """Returns the ends, int (B, most), of `parts` runs that divide `items` tokens, each division equally likely."""
    gaps = tf.where(tf.range(length)[None, :] < items[:, None] - 1, uniform(seed, length), 2.0)
    cut_behind = tf.argsort(gaps, axis=1, stable=True)[:, :most]
    slot = tf.range(most)[None, :]
    return tf.sort(tf.where(slot < parts[:, None] - 1, cut_behind + 1, items[:, None]), axis=1)


def append_end(values, keep, length: int, eos_id: int, pad_id: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns what is kept, and `eos_id` behind it, (B, length), with its padding mask."""
    count = tf.reduce_sum(tf.cast(keep, tf.int32), axis=1, keepdims=True)
    place = tf.range(length)[None, :]
    text = compact(values, keep, length, pad_id)
    return tf.where(place == count, eos_id, text), place <= count
