"""What `pair_counts.count_pairs` does, compiled by Numba: the same sums, added in the same order."""

import numba
import numpy as np

compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
FREE, BITS, LOW = np.uint64(2**64 - 1), np.uint64(32), np.uint64(2**32 - 1)
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
LEAST_SLOTS = 4


@compiled
def count_pairs(words, positions, begin, end, window, symmetric, weighted, limits, offsets, frequent):
    """Adds the pairs of which a word from `begin` to `end` is the right one.

    Args:
        words: int32 (N,).
        positions: int64 (N,), of each word in its document.
        limits, offsets, frequent: of `FrequentPairs`; its sums, `frequent`, are changed.

    Returns:
        The other pairs, two int64 (P,), each once, in no order, and float64 (P,), their sums.
    """
    # Places are written down before anything is added there: the processor then waits for many of them at a time, and no branch is
    # guessed wrong.
    places, others = np.empty(end - begin, np.int64), np.empty((end - begin) * window, np.uint64)
    weights, ends = np.empty(window), np.empty(window, np.int64)
    count = 0
    for distance in range(1, window + 1):
        num_places = 0
        for right in range(max(begin, distance), end):
            first, second = words[right - distance], words[right]
            if symmetric:
                first, second = min(first, second), max(first, second)
            is_pair, is_frequent = positions[right] >= distance, second < limits[first]
            places[num_places] = offsets[first] + second
            others[count] = np.uint64(first) << BITS | np.uint64(second)
            num_places += is_pair & is_frequent
            count += is_pair & (not is_frequent)
        weight = 1 / distance if weighted else 1.0
        for place in places[:num_places]:
            frequent[place] += weight
        weights[distance - 1], ends[distance - 1] = weight, count
    return sum_keys(others, weights, ends)


@compiled
def sum_keys(keys, weights, ends):
    """Returns the pairs of keys, each once, and their sums, where keys up to each of `ends` have each of `weights`."""
    slots, bits = LEAST_SLOTS, 2
    while slots < 2 * ends[-1]:
        slots, bits = 2 * slots, bits + 1
    shift, last = np.uint64(64 - bits), np.uint64(slots - 1)
    table = np.zeros((slots, 2), np.uint64)  # a key and its sum stand beside each other, so that they come together
    sums = table.view(np.float64)
    table[:, 0] = FREE
    begin = count = 0
    for part in range(len(ends)):
        for key in keys[begin : ends[part]]:
            slot = key * MULTIPLIER >> shift
            while table[slot, 0] != key and table[slot, 0] != FREE:
                slot = slot + np.uint64(1) & last
            count += table[slot, 0] == FREE
            table[slot, 0] = key
            sums[slot, 1] += weights[part]
        begin = ends[part]
    first, second, found = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    place = 0
    for slot in range(slots):
        key = table[slot, 0]
        if key != FREE:
            first[place], second[place], found[place] = key >> BITS, key & LOW, sums[slot, 1]
            place += 1
    return first, second, found
