"""The word that is missing from a sentence, told from random ones by negative sampling (Melamud et al., 2016, section 3.2)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.objectives.base import Objective


class WordsInContext(Objective):
    """-log sigmoid(c . t) - K mean over S negatives n of log sigmoid(-c . n), for each word t and the vector c of its context.

    The S negatives are those of a sentence, each of which stands for K / S, as in `NegativeSampling`. Unlike there, but as in
    Chainer, a negative that is the predicted word counts. The loss of a step is the mean over its words; the released code takes the
    sum, which Adam hardly tells from it.

    Args:
        negatives: K.
    """

    reads = {"token_ids": Feature((None,))}
    needs = {
        "labels": Feature((None,)),
        "label_weights": Feature((None,), "float32"),
        "negative_ids": Feature((None,)),
    }

    def __init__(self, negatives: float = 10, **kwargs):
        super().__init__(**kwargs)
        self.negatives = negatives

    def score(self, outputs, batch, backbone):
        contexts, weights = ops.cast(outputs["sequence_output"], "float32"), batch["label_weights"]
        words, others = (ops.cast(backbone.targets(batch[n]), "float32") for n in ("labels", "negative_ids"))
        positive = ops.softplus(-ops.sum(contexts * words, axis=-1))  # (B, L)
        scores = ops.matmul(contexts, ops.transpose(others, (0, 2, 1)))  # (B, L, S)
        negative = self.negatives * ops.mean(ops.softplus(scores), axis=-1)
        return {"negative_sampling": (ops.sum((positive + negative) * weights), ops.sum(weights))}, {}
