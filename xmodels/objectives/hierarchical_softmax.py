"""A softmax over words as the decisions on the way through a binary tree (Mikolov et al., 2013b, section 2.2; word2vec.c)."""

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.gradients import scale_gradient
from xmodels.objectives.word_windows import Center, Contexts, WindowObjective

MOST = 32  # predictions of a batch by which a node moves; that of many moves as far as by so many of them


class HierarchicalSoftmax(WindowObjective):
    """- sum over the nodes n on the way to a word of log sigmoid(±x . n), for each prediction of the word (2013b, section 2.2).

    A word is likelier the more its way agrees with the signs: plus where the code of the way is 0, as in word2vec.c.

    All predictions pass the root, and the sum of their gradients would throw it far beyond its place. Where more than `MOST`
    predictions of a batch are to be expected at a node, its gradient is scaled down to so many.

    Args:
        predict, reach: of `WindowObjective`.
        num_nodes: inner nodes of the tree.
        width: D.
    """

    needs = WindowObjective.needs | {
        "node_ids": Feature((None, None)),
        "node_codes": Feature((None, None)),
        "node_shares": Feature((None, None), "float32"),
    }
    sparse_tables = ("nodes.embeddings",)

    def __init__(self, predict: Contexts | Center, reach: int, num_nodes: int, width: int, **kwargs):
        super().__init__(predict, reach, **kwargs)
        self.nodes = keras.layers.Embedding(max(1, num_nodes), width, "zeros", name="nodes")
        self.nodes.build(None)

    def score(self, outputs, batch, backbone):
        inputs, windows = self.inputs(backbone, batch)
        passing = batch["node_shares"] * ops.sum(self.predict.weights(windows))
        nodes = ops.cast(self.nodes(batch["node_ids"]), "float32")
        nodes = scale_gradient(nodes, (MOST / ops.maximum(passing, MOST))[..., None])
        scores, weights = self.predict.paths(inputs, nodes, windows)
        codes = ops.cast(batch["node_codes"], "float32")[:, :, None]  # (B, N, 1, T)
        losses = ops.softplus(scores * (2.0 * codes - 1.0)) * ops.cast(codes >= 0, "float32")
        return {"hierarchical_softmax": (ops.sum(losses * weights[..., None]), ops.sum(weights))}, {}
