"""Huffman trees of labels for heads, by how often each occurs."""

from collections.abc import Sequence

import numpy as np

from data_pipelines.text import huffman
from xmodels.layers.label_tree import LabelTree


def make_tree(counts: Sequence[int], **given) -> LabelTree:
    """Returns the layer in which rare labels have longer ways; `given` is as of `Dense`."""
    return LabelTree(*huffman.paths(np.array(counts, np.int64)), **given)
