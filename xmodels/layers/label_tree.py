"""A softmax over labels as decisions on the ways through a binary tree (Joulin et al., 2016, arXiv 1607.01759, section 2.1)."""

import keras
import numpy as np
from keras import ops


class LabelTree(keras.layers.Dense):
    """The logarithms of the probabilities of C labels: states (B, D) -> float32 (B, C), which sum to one after `exp`.

    Each of the C - 1 inner nodes of a binary tree has a weight vector. The probability of a label is the product of the decisions on
    its way from the root: sigmoid of the score where its code is 1 and of the negative score where it is 0, as in the fastText library
    (word2vec.c has the signs the other way round).

    Args:
        nodes: int (C, N), the inner nodes on the way to each label, the root first.
        codes: int (C, N), which way it takes at each, 0 or 1; -1 where it has ended. Both as `huffman.paths` gives them.
        Others as of `Dense`.
    """

    def __init__(self, nodes, codes, **kwargs):
        super().__init__(max(1, len(nodes) - 1), **kwargs)
        self.nodes, self.codes = (np.asarray(each, "int32").tolist() for each in (nodes, codes))

    def call(self, state, training=None):
        scores = ops.cast(super().call(state, training=training), "float32")  # (B, C - 1)
        codes = np.array(self.codes)
        ways = ops.take(scores, ops.convert_to_tensor(self.nodes, "int32"), axis=-1)  # (B, C, N)
        signs = np.where(codes == 1, 1.0, -1.0).astype("float32")
        return ops.sum(np.where(codes < 0, 0.0, 1.0).astype("float32") * ops.log_sigmoid(signs * ways), axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], len(self.nodes))

    def get_config(self):
        config = {name: value for name, value in super().get_config().items() if name != "units"}
        return {**config, "nodes": self.nodes, "codes": self.codes}
