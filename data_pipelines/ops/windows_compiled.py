"""What `windows.WordWindows` draws, compiled by Numba: the same numbers, of the same seeds."""

import numba
import numpy as np

from data_pipelines.ops.seeds import FACTORS, LAST_SHIFT, STEP

ONE, STEP_64 = np.uint64(1), np.uint64(STEP)
FIRST_SHIFT, FIRST_FACTOR, SECOND_SHIFT, SECOND_FACTOR = (np.uint64(x) for pair in FACTORS for x in pair)
THIRD_SHIFT = np.uint64(LAST_SHIFT)
compiled = numba.njit(cache=True, nogil=True, error_model="numpy")


@compiled
def fold(seed, number):
    """Returns what `seeds.fold` does, of numbers."""
    x = seed + STEP_64 * (np.uint64(number) + ONE)
    x = (x ^ (x >> FIRST_SHIFT)) * FIRST_FACTOR
    x = (x ^ (x >> SECOND_SHIFT)) * SECOND_FACTOR
    return x ^ (x >> THIRD_SHIFT)


@compiled
def uniform(seed, number):
    """Returns that of the numbers of `seeds.uniform`."""
    return np.float32(fold(seed, number) >> np.uint64(40)) * np.float32(2.0**-24)


@compiled
def find(cumulative, guide, chance):
    """Returns how many numbers of `cumulative` are at most `chance`. `guide` is of `make_guide`."""
    part = int(chance * (guide.shape[0] - 1))
    low, high = guide[part], guide[part + 1]
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] <= chance:
            low = middle + 1
        else:
            high = middle
    return low


def make_guide(cumulative: np.ndarray) -> np.ndarray:
    """Returns between which places the numbers of `cumulative` lie that are about a chance: int64 (P + 1,), of P equal parts of 1."""
    parts = 1 << max(1, int(len(cumulative)).bit_length())  # a power of two, so that the bounds of parts are exact
    guide = np.searchsorted(cumulative, np.arange(parts + 1) / parts, side="right")
    guide[-1] = len(cumulative)
    return guide


@compiled
def draw(token_ids, pieces, seeds, keep, cumulative, guide, ends, length, slots, window, negatives):
    """Returns the features that `WordWindows` writes.

    Args:
        token_ids: int (B, W).
        pieces: (B,), how many of them are there; the last one is only what follows.
        seeds: uint64 (B,).
        keep: float32 (V,).
        cumulative: float64 (V,), of `windows.cumulate`.
        guide: of `make_guide`.
        ends: (E,), ids at which a text ends.
        length, slots, window, negatives: L, N, the most words to each side, and the negatives of a row.

    Returns:
        int32 (B, L), bool (B, L), three int32 (B, N), int32 (B, negatives): the text, where it is real, the words that stay, the
        bounds of their windows, and negatives.
    """
    rows = token_ids.shape[0]
    text, real = np.zeros((rows, length), np.int32), np.zeros((rows, length), np.bool_)
    words, parts = np.zeros((rows, slots), np.int32), np.empty(slots, np.int64)
    firsts, lasts = np.zeros((rows, slots), np.int32), np.zeros((rows, slots), np.int32)
    drawn = np.empty((rows, negatives), np.int32)
    for b in range(rows):
        kept_seed, reach_seed, negative_seed = fold(seeds[b], 0), fold(seeds[b], 1), fold(seeds[b], 2)
        count, part = 0, 0
        for place in range(min(length, pieces[b] - 1, token_ids.shape[1])):
            word = token_ids[b, place]
            text[b, place], real[b, place] = word, True
            for end in ends:
                if word == end:
                    part += 1
                    break
            if count < slots and uniform(kept_seed, place) < keep[word]:
                words[b, count], parts[count] = word, part
                count += 1
        begin = 0
        while begin < count:
            end = begin + 1
            while end < count and parts[end] == parts[begin]:
                end += 1
            for place in range(begin, end):
                reach = 1 + int(uniform(reach_seed, place) * np.float32(window))
                firsts[b, place], lasts[b, place] = max(place - reach, begin), min(place + reach + 1, end)
            begin = end
        for number in range(negatives):
            chance = np.float64(fold(negative_seed, number) >> np.uint64(11)) * 2.0**-53
            drawn[b, number] = min(find(cumulative, guide, chance), cumulative.shape[0] - 1)
    return text, real, words, firsts, lasts, drawn
