"""Negative sampling: distinguish a word from random ones (Mikolov et al., 2013b, equation 4; word2vec.c)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.objectives.word_windows import Center, Contexts, WindowObjective


class NegativeSampling(WindowObjective):
    """-log sigmoid(x . o) - K mean over S negatives n of log sigmoid(-x . n), for each prediction of a word o (2013b, equation 4).

    The S negatives are those of a block of words, each of which stands for K / S: the expectation is that of K negatives of its own
    for each prediction. As in word2vec.c, a negative that is the predicted word does not count.

    Args:
        predict, reach: of `WindowObjective`.
        negatives: K.
    """

    needs = WindowObjective.needs | {"negative_ids": Feature((None,))}

    def __init__(self, predict: Contexts | Center, reach: int = 5, negatives: float = 5, **kwargs):
        super().__init__(predict, reach, **kwargs)
        self.negatives = negatives

    def score(self, outputs, batch, backbone):
        inputs, windows = self.inputs(backbone, batch)
        centers = batch["center_ids"]
        drawn = ops.reshape(batch["negative_ids"], (*windows.blocks(centers).shape[:2], -1))  # (B, K, S)
        predicted, others = (ops.cast(backbone.contexts(ids), "float32") for ids in (centers, drawn))
        positive, weights = self.predict.positives(inputs, predicted, windows), self.predict.weights(windows)
        scores = ops.matmul(windows.blocks(inputs), ops.transpose(others, (0, 1, 3, 2)))  # (B, K, n, S)
        same = ops.cast(windows.nearby(centers)[..., None] == drawn[:, :, None], "float32")  # (B, K, m, S)
        counted = windows.blocks(weights)[..., None] - self.predict.matches(same, windows)
        negative = ops.sum(ops.softplus(scores) * counted) * (self.negatives / drawn.shape[2])
        return {"negative_sampling": (positive + negative, ops.sum(weights))}, {}
