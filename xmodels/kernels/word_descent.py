"""Steps of gradient descent on tables of words, one behind the other."""

import numba
import numpy as np

from xmodels.kernels.vectors import add, exact, jit, parallel
from xmodels.kernels.word_windows import gradients_of


@jit
def move(table, ids, places, gradients, rate, thread, threads):
    """Moves the rows of a table against their gradients, those that belong to a thread.

    Args:
        ids, places: (B, M), rows and where in `gradients` they find theirs; those at places of N and beyond are none.
        gradients: (B, N, D).
        threads: rows are divided among so many.
    """
    for b in range(ids.shape[0]):
        for m in range(ids.shape[1]):
            if ids[b, m] % threads == thread and places[b, m] < gradients.shape[1]:
                add(table[ids[b, m]], -rate, gradients[b, places[b, m]])


@parallel
def descend(
    words, others, nodes, row_ids, row_places, centers, places, drawn, numbers, different, turns, of_words, of_centers, of_drawn,
    of_nodes, rate, threads,
):  # fmt: skip
    """Moves all tables: those of what predicts, of words that are predicted and of negatives, and of nodes."""
    for thread in numba.prange(threads):
        if drawn.shape[1]:
            move(others, centers, places, of_centers, rate, thread, threads)
            move(others, drawn, numbers, of_drawn, rate, thread, threads)
        if different.shape[1]:
            move(nodes, different, turns, of_nodes, rate, thread, threads)
        move(words, row_ids, row_places, of_words, rate, thread, threads)


@exact
def run(
    words, others, nodes, centers, places, row_ids, row_places, starts, ends, drawn, node_ids, codes, node_shares, one_by_one,
    true_gradient, share, reach, block, most, rates, threads, of_words, of_centers, of_drawn, of_nodes, different, room, nodes_read,
):  # fmt: skip
    """Does n steps of B rows of text each. The arguments are those of `gradients_of`, of n B rows, but for these.

    Args:
        places: (B, N), the numbers of places.
        node_shares: (n B, N, T), the share of the words whose ways pass a node.
        most: predictions of a batch by which a node moves.
        rates: float32 (n,), the learning rates.
        threads: of `descend`.
        of_words, of_centers, of_drawn, of_nodes, different, room, nodes_read: of B rows; they are used for each step anew.

    Returns:
        float64 (n, 3): the losses of negative sampling and of the tree, and the predictions, of each step. A step with a loss that
        is not finite changes nothing.
    """
    count = of_words.shape[0]
    results, losses, counts = np.zeros((rates.shape[0], 3)), np.zeros((count, 2)), np.zeros(count, np.int64)
    scales = np.empty((count, centers.shape[1], node_ids.shape[2]), np.float32)
    numbers = np.empty((count, drawn.shape[1]), np.int64)
    numbers[:] = np.arange(drawn.shape[1])
    turns = np.empty(different.shape, np.int64)
    for k in range(rates.shape[0]):
        a, b = k * count, (k + 1) * count
        predictions = 0
        for row in range(a, b):
            for i in range(centers.shape[1]):
                size = max(ends[row, i] - starts[row, i] - 1, 0)
                predictions += size if one_by_one else min(size, 1)
        for row in range(count):
            for i in range(centers.shape[1]):
                for t in range(node_ids.shape[2]):
                    passing = node_shares[a + row, i, t] * np.float32(predictions)
                    scales[row, i, t] = np.float32(most) / max(passing, np.float32(most))
        gradients_of(
            words, others, nodes, centers[a:b], row_ids[a:b], row_places[a:b], starts[a:b], ends[a:b], drawn[a:b], node_ids[a:b],
            codes[a:b], scales, one_by_one, true_gradient, share, reach, block, of_words, of_centers, of_drawn, of_nodes, different,
            counts, losses, room, nodes_read,
        )  # fmt: skip
        results[k, 0], results[k, 1], results[k, 2] = losses[:, 0].sum(), losses[:, 1].sum(), predictions
        if np.isfinite(results[k, 0] + results[k, 1]):
            if node_ids.shape[2]:
                turns[:] = different.shape[1]
                for row in range(count):
                    turns[row, : counts[row]] = np.arange(counts[row])
                    different[row, counts[row] :] = 0
            descend(
                words, others, nodes, row_ids[a:b], row_places[a:b], centers[a:b], places, drawn[a:b], numbers, different, turns,
                of_words, of_centers, of_drawn, of_nodes, rates[k], threads,
            )  # fmt: skip
    return results
