"""What an answer costs in multiplications and additions, counted as the paper counts (Liu et al., 2020, table 1).

Matrix products of layers count, two operations each; products of attention scores, softmax, norms, biases, embeddings and the last
layer of a classifier do not.
"""

import numpy as np

from xmodels.layers.branches import WIDTH


def layer_flops(config, length: int) -> int:
    """Returns that of one layer, for a text of so many tokens."""
    return 2 * length * (4 * config.hidden_dim**2 + 2 * config.hidden_dim * config.intermediate_dim)


def branch_flops(config, length: int) -> int:
    """Returns that of one classifier."""
    return 2 * length * (WIDTH * config.hidden_dim + 4 * WIDTH**2) + 2 * WIDTH**2


def full_flops(config, length: int) -> int:
    """Returns that of all layers and one classifier: a network without early exit."""
    return config.num_layers * layer_flops(config, length) + branch_flops(config, length)


def exit_flops(config, length: int, layers) -> np.ndarray:
    """Returns that of texts that leave behind these layers, counted from 0: float64 (N,)."""
    each = layer_flops(config, length) + branch_flops(config, length)
    return (np.asarray(layers, np.float64) + 1.0) * each


def expected_speedup(config, length: int, layers) -> float:
    """Returns how many times as much a network without early exit would compute."""
    return full_flops(config, length) / float(exit_flops(config, length, layers).mean())
