"""A softmax over labels as decisions on the ways through a binary tree (Joulin et al., 2016, arXiv 1607.01759, section 2.1)."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from data_pipelines.text import huffman


class LabelTree(keras.layers.Dense):
    """The logarithms of the probabilities of C labels: states (B, D) -> float32 (B, C), which sum to one after `exp`.

    Each of the C - 1 inner nodes of the Huffman tree of the labels has a weight vector. The probability of a label is the product of
    the decisions on its way from the root: sigmoid of the score where its code is 1 and of the negative score where it is 0, as in the
    fastText library (word2vec.c has the signs the other way round). Rare labels have longer ways.

    Args:
        counts: how often each label occurs, at least 1 each; they decide the tree.
        Others as of `Dense`.
    """

    def __init__(self, counts: Sequence[int], **kwargs):
        super().__init__(max(1, len(counts) - 1), **kwargs)
        self.counts = [int(count) for count in counts]
        self._nodes, codes = huffman.paths(np.array(self.counts, np.int64))  # (C, N) each
        self._there, self._signs = (codes >= 0).astype("float32"), np.where(codes == 1, 1.0, -1.0).astype("float32")

    def call(self, state, training=None):
        scores = ops.cast(super().call(state, training=training), "float32")  # (B, C - 1)
        ways = ops.take(scores, ops.convert_to_tensor(self._nodes), axis=-1)  # (B, C, N)
        return ops.sum(self._there * ops.log_sigmoid(self._signs * ways), axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], len(self.counts))

    def get_config(self):
        return {
            **{name: value for name, value in super().get_config().items() if name != "units"},
            "counts": self.counts,
        }
