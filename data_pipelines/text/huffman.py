"""Binary trees with short ways to frequent words, for hierarchical softmax (Mikolov et al., 2013b, section 2.1; word2vec.c)."""

import numpy as np

NO_NODE = -1  # a code where the way to a word is shorter


def paths(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Builds the Huffman tree of words and returns the way to each from its root.

    As word2vec.c and fastText do, two queues of nodes in the order of their counts are merged. Words with a count of 0 are not in the
    tree.

    Args:
        counts: whole numbers (V,).

    Returns:
        nodes: int32 (V, N), the inner nodes on the way to each word, the root first; 0 to the number of words less 2.
        codes: int8 (V, N), which way it takes at each, 0 or 1; `NO_NODE` where it has ended.
    """
    words = np.flatnonzero(counts > 0)
    words = words[np.argsort(-np.asarray(counts)[words], kind="stable")]
    size = len(words)
    if size < 2:
        return np.zeros((len(counts), 1), np.int32), np.full((len(counts), 1), NO_NODE, np.int8)
    parents, bits = _merge([int(count) for count in np.asarray(counts)[words]])
    ways = []
    for leaf in range(size):
        way, node = [], leaf
        while node != 2 * size - 2:
            way.append((parents[node] - size, bits[node]))
            node = parents[node]
        ways.append(way[::-1])
    longest = max(map(len, ways))
    nodes, codes = np.zeros((len(counts), longest), np.int32), np.full((len(counts), longest), NO_NODE, np.int8)
    for word, way in zip(words, ways, strict=True):
        nodes[word, : len(way)] = [node for node, _ in way]
        codes[word, : len(way)] = [bit for _, bit in way]
    return nodes, codes


def _merge(counts: list[int]) -> tuple[list[int], list[int]]:
    """Returns the parent of each node, and whether it is the second child (1) of it.

    Leaves come first, with falling counts; inner nodes follow in the order in which they are made, the root last.
    """
    size = len(counts)
    counts = counts + [1 << 62] * (size - 1)
    parents, bits = [0] * (2 * size - 1), [0] * (2 * size - 1)
    leaf, inner = size - 1, size
    for made in range(size, 2 * size - 1):
        least = []
        for _ in range(2):
            if leaf >= 0 and counts[leaf] < counts[inner]:
                least.append(leaf)
                leaf -= 1
            else:
                least.append(inner)
                inner += 1
        counts[made] = counts[least[0]] + counts[least[1]]
        parents[least[0]] = parents[least[1]] = made
        bits[least[1]] = 1
    return parents, bits
