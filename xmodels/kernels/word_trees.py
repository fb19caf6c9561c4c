"""The loss of the way to a word through a binary tree and its gradients: what `objectives.hierarchical_softmax` computes."""

import numpy as np

from xmodels.kernels.vectors import add, dot, jit, softplus


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
    most = codes.shape[1] * inputs.shape[0]  # of a window no wider than the row
    scores, small, slopes = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(most, np.float32)
    bits, total = np.empty(most, np.int32), 0.0
    for i in range(inputs.shape[0]):
        begin, end = starts[i], ends[i]
        if not one_by_one:
            begin, end = (i, i + 1) if end - begin > 1 else (0, 0)
        for is_second in range(2):  # scores, then what follows from their slopes
            n = 0
            for j in range(begin, end):
                if j != i or not one_by_one:
                    for t in range(codes.shape[1]):
                        if codes[i, t] >= 0:
                            sign, place = np.float32(2 * codes[i, t] - 1), node_places[i, t]
                            if is_second:
                                add(gradients[j], sign * slopes[n], rows[place])
                                add(of_nodes[place], sign * slopes[n] * scales[i, t], inputs[j])
                            else:
                                scores[n] = sign * dot(inputs[j], rows[place])
                            n += 1
            if not is_second:
                total += softplus(scores[:n], bits[:n], small[:n], slopes[:n])
    return total
