"""The losses of skip-gram and CBOW and their gradients, compiled by Numba: what `objectives.word_windows` and its kin compute.

A step reads all weights before it changes one, as gradient descent on a batch does. Rows of a table are changed by one thread each,
in the order of the text, so that the numbers do not depend on how many threads there are.
"""

import math

import numba
import numpy as np

from xmodels.kernels.vectors import ONE, add, dot, exponentials, jit, parallel, softplus
from xmodels.kernels.word_trees import number_nodes, tree


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
def spread(gradients, totals, starts, ends, true_gradient, changes, found):
    """Writes the gradients of the words of windows, (N, D), from those of their means: each is added where its window begins, and
    taken away where it ends and at the word itself, of the running sum. `changes` is room, (N + 1, D)."""
    length, width = gradients.shape
    changes[:] = 0.0
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
    most = np.int64(0)
    for i in range(inputs.shape[0]):
        most += max(ends[i] - starts[i] - 1, 0) if one_by_one else min(max(ends[i] - starts[i] - 1, 0), 1)
    scores, small, slopes = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(most, np.float32)
    total = 0.0
    for is_second in range(2):  # scores, then what follows from their slopes
        n = 0
        for i in range(inputs.shape[0]):
            begin, end = starts[i], ends[i]
            if not one_by_one:
                begin, end = (i, i + 1) if end - begin > 1 else (0, 0)
            for j in range(begin, end):
                if j != i or not one_by_one:
                    row = others[centers[j]]
                    if is_second:
                        add(gradients[i], -slopes[n], row)
                        add(of_others[j], -slopes[n], inputs[i])
                    else:
                        scores[n] = -dot(inputs[i], row)
                    n += 1
        if not is_second:
            total += softplus(scores, np.empty(most, np.int32), small, slopes)
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
                        loss = max(scores[n, s], np.float32(0.0)) + math.log1p(small[n, s])
                        total -= min(matches[n, s], weight) * share * loss
            for s in range(count):
                slope = (ONE if scores[n, s] >= 0 else small[n, s]) / (ONE + small[n, s])
                scores[n, s] = slope * share * max(weight - matches[n, s], np.float32(0.0))
        np.dot(scores, rows, gradients[first : first + block])
        np.dot(scores.T, inputs[first : first + block], of_others[k * count : (k + 1) * count])
    return total


@parallel
def gradients_of(
    words, others, nodes, centers, row_ids, row_places, starts, ends, drawn, node_ids, codes, scales, one_by_one, true_gradient, share,
    reach, block, of_words, of_centers, of_drawn, of_nodes, different, counts, losses, room, nodes_read,
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
        room: (threads, 4, N + 1, D), whose memory is used; it is not made anew for each step, since that costs a page fault for
            each thousand numbers.
        nodes_read: (threads, U, D), likewise.
    """
    length, width = of_words.shape[1:]
    for b in numba.prange(centers.shape[0]):
        own = room[numba.get_thread_id()]
        states, sizes = own[0, :length], np.empty(length, np.float32)
        gather(words, row_ids[b], row_places[b], states, sizes)
        inputs, gradients, totals = states, of_words[b], sizes
        if not one_by_one:
            inputs, gradients, totals = own[1, :length], own[2, :length], np.empty_like(sizes)
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
            rows = nodes_read[numba.get_thread_id()]
            for n in range(counts[b]):
                rows[n] = nodes[different[b, n]]
            of_nodes[b, : counts[b]] = 0.0
            losses[b, 1] = tree(
                inputs, rows, places, codes[b], scales[b], starts[b], ends[b], one_by_one, gradients, of_nodes[b]
            )
        if not one_by_one:
            spread(gradients, totals, starts[b], ends[b], true_gradient, own[3], of_words[b])
