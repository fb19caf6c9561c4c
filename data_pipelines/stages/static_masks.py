"""Static masking, drawn once when the records are written, as Google's scripts do it.

The usual way is to mask in the graph (`data_pipelines.ops.corruption`), anew in every epoch. The semantics here are those
of `create_masked_lm_predictions` of google-research/bert; the draws are not, since whole batches are drawn at once.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass
class Hidden:
    """What was hidden in N examples, in the order of the places; slots that stay empty hold 0.

    Attributes:
        ids: (N, L), with masks.
        positions, labels: (N, P), places and the ids that stood there.
        counts: (N,), how many slots are used.
    """

    ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    counts: np.ndarray


def budgets(lengths: np.ndarray, rate: float, max_predictions: int) -> np.ndarray:
    """How many tokens to hide in examples of `lengths` tokens, special ones counted."""
    return np.minimum(max_predictions, np.maximum(1, np.rint(lengths * rate).astype(np.int64)))


def mask_statically(
    ids, word_start, maskable, wanted, replacement, max_predictions: int, random, whole_fates=False
) -> Hidden:
    """Hides random words until `wanted` tokens are hidden; a word that would exceed this is skipped.

    Args:
        ids: int (N, L).
        word_start: bool (N, L); all True hides single tokens.
        maskable: bool (N, L), False on special tokens and padding.
        wanted: int (N,), at most `max_predictions`.
        replacement: (id of the mask, size of the vocabulary).
        max_predictions: P.
        random: a `numpy.random.RandomState`, whose stream is the same in every version of numpy.
        whole_fates: all tokens of a word are masked, kept or replaced alike; otherwise each has its own fate.
    """
    rows, length = ids.shape
    if (word_start | ~maskable).all():
        keys = random.random_sample(ids.shape).astype(np.float32)
        keys[~maskable] = 2.0
        positions = np.argsort(keys, axis=1)[:, :max_predictions]
        counts = np.minimum(wanted, maskable.sum(axis=1))
    else:
        positions, counts = _whole_words(word_start, maskable, wanted, max_predictions, random)
    used = np.arange(positions.shape[1]) < counts[:, None]
    positions = np.sort(np.where(used, positions, length), axis=1)
    positions = np.pad(positions, [(0, 0), (0, max(0, max_predictions - positions.shape[1]))], constant_values=length)
    used = positions < length
    positions = np.where(used, positions, 0)
    labels = np.where(used, np.take_along_axis(ids, positions, axis=1), 0)
    fate = random.random_sample(positions.shape)
    if whole_fates:
        word = np.take_along_axis(np.cumsum(word_start & maskable, axis=1), positions, axis=1)
        fate = np.take_along_axis(random.random_sample((rows, length + 1)), word, axis=1)
    return Hidden(_replaced(ids, positions, labels, used, fate, replacement, random), positions, labels, counts)


def _replaced(ids, positions, labels, used, fate, replacement, random) -> np.ndarray:
    """80 % the mask, 10 % the token itself, 10 % any token, as in Google's code special ones too."""
    mask, vocabulary_size = replacement
    drawn = random.randint(0, vocabulary_size, positions.shape)
    new = np.where(fate < 0.8, mask, np.where(fate < 0.9, labels, drawn))
    hidden = ids.copy()
    row, slot = np.nonzero(used)
    hidden[row, positions[row, slot]] = new[row, slot]
    return hidden


def _whole_words(word_start, maskable, wanted, max_predictions, random) -> tuple[np.ndarray, np.ndarray]:
    """Places (N, P) and their number: walking through shuffled words, in a few passes over all examples at once.

    The same rule as `data_pipelines.ops.corruption.choose_words` applies in the graph.
    """
    rows, length = maskable.shape
    word = np.maximum(np.cumsum(word_start & maskable, axis=1) - 1, 0)
    flat = (word + np.arange(rows)[:, None] * length)[maskable]
    sizes = np.bincount(flat, minlength=rows * length).reshape(rows, length)
    keys = np.where(sizes > 0, random.random_sample(sizes.shape).astype(np.float32), np.float32(2.0))
    order = np.argsort(keys, axis=1)
    sizes = np.take_along_axis(sizes, order, axis=1)
    left = wanted.copy()
    open_ = (sizes > 0) & (sizes <= left[:, None])
    taken = np.zeros_like(open_)
    while open_.any():
        take = open_ & (np.cumsum(np.where(open_, sizes, 0), axis=1) <= left[:, None])
        left -= np.where(take, sizes, 0).sum(axis=1)
        taken |= take
        open_ &= ~take & (sizes <= left[:, None])
    by_word = np.zeros_like(taken)
    np.put_along_axis(by_word, order, taken, axis=1)
    chosen = np.take_along_axis(by_word, word, axis=1) & maskable
    positions = np.argsort(~chosen, axis=1, kind="stable")[:, :max_predictions]
    return positions, chosen.sum(axis=1)


def mask_ngrams_statically(
    tokens, word_start, vocabulary, wanted: int, whole_words: bool, rng, lengths, longest: int, favor_shorter: bool = True
):  # fmt: skip
    """Hides n-grams of neighbouring words in one example, n up to `longest` (Lan et al., 2019, section 4.1).

    Restates google-research/albert draw by draw. An n-gram that would exceed `wanted` is tried shorter; one that overlaps
    another is skipped. As in the original, it may run across the `[SEP]` between the segments.

    Args:
        tokens: one sequence with special tokens, as strings or as ids.
        word_start: for each token whether it opens a word; None for special tokens, which are never hidden.
        vocabulary: (mask, all tokens in id order), of the same kind as `tokens`.
        rng: a `random.Random`, which draws the places and what comes there.
        lengths: a `numpy.random.RandomState`, which draws n.
        longest: N.
        favor_shorter: p(n) is proportional to 1 / n; otherwise to 1 / (N + 1 - n).

    Returns:
        The tokens with masks, and the places, ascending.
    """
    groups: list[list[int]] = []
    for index, starts in enumerate(word_start):
        if starts is None:
            continue
        if whole_words and groups and not starts:
            groups[-1].append(index)
        else:
            groups.append([index])
    rates = 1.0 / np.arange(1, longest + 1)
    rates = (rates if favor_shorter else rates[::-1]) / rates.sum()
    starts = list(range(len(groups)))
    rng.shuffle(starts)
    hidden, covered = list(tokens), set()
    for start in starts:
        if len(covered) >= wanted:
            break
        n = int(lengths.choice(np.arange(1, longest + 1), p=rates))
        while n > 1 and len(covered) + sum(map(len, groups[start : start + n])) > wanted:
            n -= 1
        span = [index for group in groups[start : start + n] for index in group]
        if len(covered) + len(span) > wanted or not covered.isdisjoint(span):
            continue
        covered.update(span)
        for index in span:
            if rng.random() < 0.8:
                hidden[index] = vocabulary[0]
            elif rng.random() >= 0.5:
                hidden[index] = vocabulary[1][rng.randint(0, len(vocabulary[1]) - 1)]
    rng.shuffle(starts)  # the original shuffles once more, for an option that we lack
    return hidden, sorted(covered)
