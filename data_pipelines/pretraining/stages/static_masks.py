"""Static masking, drawn once when the records are written, as Google's scripts do it.

The usual way is to mask in the graph (`data_pipelines.ops.corruption`), anew in every epoch. The semantics here are those
of `create_masked_lm_predictions` of google-research/bert; the draws are not, since whole batches are drawn at once.
"""

import dataclasses

import numpy as np

from data_pipelines.text.hashes import ranges


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
    """Returns how many tokens to hide in examples of `lengths` tokens, special ones counted."""
    return np.minimum(max_predictions, np.maximum(1, np.rint(lengths * rate).astype(np.int64)))


def mask_statically(
    ids, word_start, maskable, wanted, replacement, max_predictions: int, random, whole_fates=False
) -> Hidden:
    """Hides random words until `wanted` tokens are hidden; a word that would exceed this is skipped.

    Args:
        ids: int (N, L).
        word_start: bool (N, L), True on the first token of each row that may be hidden; all True hides single tokens.
        maskable: bool (N, L), False on special tokens and padding.
        wanted: int (N,), at most `max_predictions`.
        replacement: (id of the mask, size of the vocabulary).
        max_predictions: P.
        random: a `numpy.random.RandomState`, whose stream is the same in every version of numpy.
        whole_fates: all tokens of a word are masked, kept or replaced alike; otherwise each has its own fate.
    """
    rows, length = ids.shape
    num_words = np.count_nonzero(word_start & maskable, axis=1)
    places = np.flatnonzero(maskable)  # in all rows side by side; tokens are numbered as they stand here
    starts = np.flatnonzero(word_start[maskable])  # the first token of each word
    sizes = np.diff(starts, append=len(places))
    words = choose(shuffle_words(num_words, random), num_words, sizes, wanted)
    tokens = np.sort(ranges(starts[words], sizes[words]))
    if whole_fates:
        fate = random.random_sample(len(starts))[np.searchsorted(starts, tokens, "right") - 1]
    else:
        fate = random.random_sample(len(tokens))
    places = places[tokens]
    row = places // length
    counts = np.bincount(row, minlength=rows)
    slots = np.arange(len(row)) + (np.arange(rows) * max_predictions - (np.cumsum(counts) - counts))[row]
    positions, labels = np.zeros((2, rows, max_predictions), np.int32)
    positions.ravel()[slots] = places - row * length
    labels.ravel()[slots] = old = ids.ravel()[places]
    hidden = ids.copy()
    hidden.ravel()[places] = _replacements(old, fate, replacement, random)
    return Hidden(hidden, positions, labels, counts)


def _replacements(old, fate, replacement, random) -> np.ndarray:
    """Returns 80 % the mask, 10 % the token itself, 10 % any token, as in Google's code special ones too."""
    mask, vocabulary_size = replacement
    drawn = (random.random_sample(len(old)) * vocabulary_size).astype(old.dtype)
    return np.where(fate < 0.8, mask, np.where(fate < 0.9, old, drawn))


def shuffle_words(counts: np.ndarray, random) -> np.ndarray:
    """Returns the words of each example in random order, numbered from 0: (N, W), of which `counts` (N,) hold."""
    rows, most = len(counts), int(counts.max(initial=0))
    bits = most.bit_length()
    place = np.arange(most, dtype=np.uint32 if bits < 12 else np.uint64)
    keys = np.frombuffer(random.bytes(place.itemsize * rows * most), f"<u{place.itemsize}").reshape(rows, most)
    # The place stands in the last bits, so that sorting the keys sorts the places.
    keys = keys >> bits << bits | place
    np.copyto(keys, ~np.zeros_like(place), where=place >= counts[:, None])
    keys.sort(axis=1)
    return keys & (1 << bits) - 1


def choose(order: np.ndarray, counts: np.ndarray, sizes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Returns the words that are hidden, in any order: walks through the words of all examples side by side.

    The same rule as `data_pipelines.ops.corruption.choose_words` applies in the graph.

    Args:
        order, counts: (N, W) and (N,), see `shuffle_words`.
        sizes: of the words of all examples side by side, in tokens.
        wanted: (N,), how many tokens to hide at most; a word that would exceed this is skipped.
    """
    left, rows, chosen = wanted.copy(), np.arange(len(order)), []
    before = np.cumsum(counts) - counts  # words of the examples before
    for step in range(order.shape[1]):
        rows = rows[(left[rows] > 0) & (step < counts[rows])]
        if not len(rows):
            break
        tried = before[rows] + order[rows, step].astype(np.int64)
        fits = sizes[tried] <= left[rows]
        chosen.append(tried[fits])
        left[rows[fits]] -= sizes[chosen[-1]]
    return np.concatenate(chosen or [rows])


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
