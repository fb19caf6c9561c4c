"""The losses of skip-gram and CBOW and their gradients, compiled by Numba: what `objectives.word_windows` and its kin compute.

A step reads all weights before it changes one, as gradient descent on a batch does. Rows of a table are changed by one thread each,
in the order of the text, so that the numbers do not depend on how many threads there are.
"""

import math

import numba
import numpy as np

# Without `ninf` and `nnan`: a loss that is not finite must be seen.
FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}
jit = numba.njit(cache=True, fastmath=FAST, nogil=True, error_model="numpy")
ONE = np.float32(1.0)
# 2 ** x for 0 <= x < 1 within 3e-8: a polynomial of Chebyshev points.
POWERS = np.polynomial.Polynomial(
    np.polynomial.chebyshev.Chebyshev.interpolate(lambda x: 2.0**x, 6, [0.0, 1.0]).convert(kind=np.polynomial.Polynomial).coef
).coef.astype(np.float32)  # fmt: skip
LOG2_E, LEAST = np.float32(1.0 / math.log(2.0)), np.float32(-120.0)


@jit
def dot(a, b):
    total = np.float32(0.0)
    for d in range(a.shape[0]):
        total += a[d] * b[d]
    return total


@jit
def add(target, rate, x):
    """Adds `rate` times x."""
    for d in range(x.shape[0]):
        target[d] += rate * x[d]


@jit
def softplus(score):
    """Returns log(1 + e^z), and its slope, 1 / (1 + e^-z)."""
    small = np.float32(math.exp(-abs(score)))
    slope = ONE / (ONE + small)
    return max(score, np.float32(0.0)) + np.float32(math.log1p(small)), (slope if score >= 0 else small * slope)


@jit
def exponentials(scores, bits, found):
    """Writes e^-|z| of scores; `bits` int32 is room of the same shape. Written so that it becomes vector instructions."""
    a, b, c, d, e, f, g = POWERS
    for n in range(scores.shape[0]):
        x = max(-abs(scores[n]) * LOG2_E, LEAST)
        whole = np.int32(x - np.float32(0.9999999))  # x is 0 or below
        part = x - np.float32(whole)
        found[n] = a + part * (b + part * (c + part * (d + part * (e + part * (f + part * g)))))
        bits[n] = (whole + np.int32(127)) << np.int32(23)
    powers = bits.view(np.float32)
    for n in range(scores.shape[0]):
        found[n] *= powers[n]


@jit
def gather(table, row_ids, row_places, states, sizes):
    """Writes the mean of the rows of each place, (N, D), and their number, at least 1, (N,).

    Args:
        table: (V, D).
        row_ids, row_places: (M,); rows at places of N and beyond are none.
    """
    states[:] = 0.0
    sizes[:] = 0.0
    for m in range(row_ids.shape[0]):
        place = row_places[m]
        if place < states.shape[0]:
            add(states[place], ONE, table[row_ids[m]])
            sizes[place] += ONE
    for place in range(states.shape[0]):
        if sizes[place] > 1:
            rate = ONE / sizes[place]
            for d in range(states.shape[1]):
                states[place, d] *= rate
        sizes[place] = max(sizes[place], ONE)


@jit
def average_windows(states, sizes, starts, ends, reach, block, means, totals):
    """Writes what predicts each word of CBOW, (N, D), and of how many rows it is the mean, (N,).

    The sum of a window is the difference of two running sums, which begin anew with each block.
    """
    length, width = states.shape
    sums, counts = np.empty((block + 2 * reach + 1, width), np.float32), np.empty(block + 2 * reach + 1, np.float32)
    for first in range(0, length, block):
        begin, end = max(0, first - reach), min(length, first + block + reach)
        sums[0] = 0.0
        counts[0] = 0.0
        for j in range(begin, end):
            size, n = sizes[j], j - begin
            counts[n + 1] = counts[n] + size
            for d in range(width):
                sums[n + 1, d] = sums[n, d] + size * states[j, d]
        for i in range(first, first + block):
            if ends[i] - starts[i] < 2:
                means[i], totals[i] = 0.0, ONE
                continue
            a, b, own = starts[i] - begin, ends[i] - begin, sizes[i]
            totals[i] = max(counts[b] - counts[a] - own, ONE)
            rate = ONE / totals[i]
            for d in range(width):
                means[i, d] = (sums[b, d] - sums[a, d] - own * states[i, d]) * rate


@jit
def spread(gradients, totals, starts, ends, true_gradient, found):
    """Writes the gradients of the words of windows, (N, D), from those of their means: each is added where its window begins, and
    taken away where it ends and at the word itself, of the running sum."""
    length, width = gradients.shape
    changes = np.zeros((length + 1, width), np.float32)
    for i in range(length):
        if ends[i] - starts[i] > 1:
            rate = ONE / totals[i] if true_gradient else ONE
            add(changes[starts[i]], rate, gradients[i])
            add(changes[ends[i]], -rate, gradients[i])
    running = np.zeros(width, np.float32)
    for j in range(length):
        rate = np.float32(0.0)
        if ends[j] - starts[j] > 1:
            rate = ONE / totals[j] if true_gradient else ONE
        for d in range(width):
            running[d] += changes[j, d]
            found[j, d] = running[d] - rate * gradients[j, d]


@jit
def positives(inputs, others, centers, starts, ends, one_by_one, gradients, of_others):
    """Adds to the gradients of the inputs and of the predicted words, (N, D). Returns the loss."""
    total = 0.0
    for i in range(inputs.shape[0]):
        begin, end = starts[i], ends[i]
        if not one_by_one:
            begin, end = (i, i + 1) if end - begin > 1 else (0, 0)
        for j in range(begin, end):
            if j != i or not one_by_one:
                row = others[centers[j]]
                loss, slope = softplus(-dot(inputs[i], row))
                total += loss
                add(gradients[i], -slope, row)
                add(of_others[j], -slope, inputs[i])
    return total


@jit
def negatives(inputs, others, centers, drawn, starts, ends, one_by_one, share, reach, block, gradients, of_others):
    """Writes the gradients of the inputs, (N, D), and of the negatives, (K S, D). Returns the loss.

    A negative that is the predicted word does not count.

    Args:
        drawn: (K S,), the negatives of K blocks of `block` words.
        share: how many negatives each one stands for.
        reach: the most words to each side.
    """
    length, width = inputs.shape
    count = drawn.shape[0] // (length // block)
    rows = np.empty((count, width), np.float32)
    scores, small = np.empty((block, count), np.float32), np.empty((block, count), np.float32)
    bits, matches = np.empty(block * count, np.int32), np.empty((block, count), np.float32)
    total = 0.0
    for k in range(length // block):
        first, ids = k * block, drawn[k * count : (k + 1) * count]
        for s in range(count):
            rows[s] = others[ids[s]]
        np.dot(inputs[first : first + block], rows.T, scores)
        exponentials(scores.reshape(-1), bits, small.reshape(-1))
        matches[:] = 0.0
        has_matches = False
        for j in range(max(0, first - reach), min(length, first + block + reach)):
            equal = 0
            for s in range(count):
                equal += centers[j] == ids[s]
            if not equal:
                continue
            has_matches = True
            for s in range(count):
                if centers[j] == ids[s]:
                    for i in range(max(first, j - reach), min(first + block, j + reach + 1)):
                        if (starts[i] <= j < ends[i] and i != j) if one_by_one else i == j:
                            matches[i - first, s] += ONE
        for n in range(block):
            i = first + n
            weight = np.float32(max(ends[i] - starts[i] - 1, 0))
            weight = weight if one_by_one else min(weight, ONE)
            for begin in range(0, count, 64):  # a product of 64 numbers up to 2 is no infinity
                above, product = np.float32(0.0), 1.0
                for s in range(begin, min(begin + 64, count)):
                    above += max(scores[n, s], np.float32(0.0))
                    product *= ONE + small[n, s]
                total += weight * share * (above + math.log(product))
            if has_matches:
                for s in range(count):
                    if matches[n, s] > 0:
                        total -= min(matches[n, s], weight) * share * softplus(scores[n, s])[0]
            for s in range(count):
                slope = (ONE if scores[n, s] >= 0 else small[n, s]) / (ONE + small[n, s])
                scores[n, s] = slope * share * max(weight - matches[n, s], np.float32(0.0))
        np.dot(scores, rows, gradients[first : first + block])
        np.dot(scores.T, inputs[first : first + block], of_others[k * count : (k + 1) * count])
    return total


@jit
def find(keys, key):
    """Returns the slot of a key in a table of a power of two slots, of which -1 are free; or the free one where it would stand."""
    last = keys.shape[0] - 1
    slot = (key * np.int64(2654435761)) & last
    while keys[slot] != key and keys[slot] >= 0:
        slot = (slot + 1) & last
    return slot


@jit
def number_nodes(node_ids, codes, found, places):
    """Writes the different nodes of a row of text into `found`, and at which of them each node (N, T) stands. Returns how many."""
    room = 16
    while room < 2 * min(node_ids.size, found.shape[0]) + 1:
        room *= 2
    keys, numbers = np.full(room, -1, np.int64), np.empty(room, np.int32)
    count = 0
    for i in range(node_ids.shape[0]):
        for t in range(node_ids.shape[1]):
            if codes[i, t] >= 0:
                slot = find(keys, np.int64(node_ids[i, t]))
                if keys[slot] < 0:
                    keys[slot], numbers[slot], found[count] = node_ids[i, t], count, node_ids[i, t]
                    count += 1
                places[i, t] = numbers[slot]
    return count


@jit
def tree(inputs, rows, node_places, codes, scales, starts, ends, one_by_one, gradients, of_nodes):
    """Adds to the gradients of the inputs, (N, D), and of the nodes, (U, D). Returns the loss.

    Args:
        rows: (U, D), the vectors of the nodes.
        node_places: (N, T), which node stands at each turn of the way to a word.
        codes: (N, T), below 0 behind the end of a way.
        scales: (N, T), by which the gradients of nodes are multiplied.
    """
    total = 0.0
    for i in range(inputs.shape[0]):
        begin, end = starts[i], ends[i]
        if not one_by_one:
            begin, end = (i, i + 1) if end - begin > 1 else (0, 0)
        for j in range(begin, end):
            if j != i or not one_by_one:
                for t in range(codes.shape[1]):
                    if codes[i, t] >= 0:
                        sign, row = np.float32(2 * codes[i, t] - 1), rows[node_places[i, t]]
                        loss, slope = softplus(sign * dot(inputs[j], row))
                        total += loss
                        add(gradients[j], sign * slope, row)
                        add(of_nodes[node_places[i, t]], sign * slope * scales[i, t], inputs[j])
    return total


@numba.njit(cache=True, fastmath=FAST, nogil=True, error_model="numpy", parallel=True)
def gradients_of(
    words, others, nodes, centers, row_ids, row_places, starts, ends, drawn, node_ids, codes, scales, one_by_one, true_gradient, share,
    reach, block, of_words, of_centers, of_drawn, of_nodes, different, counts, losses,
):  # fmt: skip
    """Writes the gradients and losses of rows of text.

    Args:
        words: (V, D), the table whose rows make up words.
        others: (V, D), vectors of words as predicted ones.
        nodes: (W, D), of the inner nodes of a tree.
        centers, starts, ends: (B, N), words and their windows.
        row_ids, row_places: (B, M), the rows of words.
        drawn: (B, K S), negatives; none without negative sampling.
        node_ids, codes, scales: (B, N, T), of the ways to words; of no turns without a tree.
        one_by_one: skip-gram; else CBOW.
        of_words, of_centers: (B, N, D), the gradients of words as what predicts and as what is predicted.
        of_drawn: (B, K S, D).
        of_nodes, different: (B, U, D) and (B, U), the nodes of each row of text and their gradients, behind `counts` (B,) none.
        losses: float64 (B, 2), of negative sampling and of the tree.
    """
    length, width = of_words.shape[1:]
    for b in numba.prange(centers.shape[0]):
        states, sizes = np.empty((length, width), np.float32), np.empty(length, np.float32)
        gather(words, row_ids[b], row_places[b], states, sizes)
        inputs, gradients, totals = states, of_words[b], sizes
        if not one_by_one:
            inputs, gradients, totals = np.empty_like(states), np.empty_like(states), np.empty_like(sizes)
            average_windows(states, sizes, starts[b], ends[b], reach, block, inputs, totals)
        if drawn.shape[1]:
            losses[b, 0] = negatives(
                inputs, others, centers[b], drawn[b], starts[b], ends[b], one_by_one, share, reach, block, gradients, of_drawn[b]
            )  # fmt: skip
            of_centers[b] = 0.0
            losses[b, 0] += positives(
                inputs, others, centers[b], starts[b], ends[b], one_by_one, gradients, of_centers[b]
            )
        else:
            gradients[:] = 0.0
        if node_ids.shape[2]:
            places = np.empty(codes.shape[1:], np.int32)
            counts[b] = number_nodes(node_ids[b], codes[b], different[b], places)
            rows = np.empty((counts[b], width), np.float32)
            for n in range(counts[b]):
                rows[n] = nodes[different[b, n]]
            of_nodes[b, : counts[b]] = 0.0
            losses[b, 1] = tree(
                inputs, rows, places, codes[b], scales[b], starts[b], ends[b], one_by_one, gradients, of_nodes[b]
            )
        if not one_by_one:
            spread(gradients, totals, starts[b], ends[b], true_gradient, of_words[b])


@numba.njit(cache=True, fastmath=FAST, nogil=True, error_model="numpy", parallel=True)
def descend(table, ids, places, gradients, rate, threads):
    """Moves the rows of a table against their gradients.

    Args:
        ids, places: (B, M), rows and where in `gradients` they find theirs; those at places of N and beyond are none.
        gradients: (B, N, D).
        threads: rows are divided among so many.
    """
    for thread in numba.prange(threads):
        for b in range(ids.shape[0]):
            for m in range(ids.shape[1]):
                if ids[b, m] % threads == thread and places[b, m] < gradients.shape[1]:
                    add(table[ids[b, m]], -rate, gradients[b, places[b, m]])
