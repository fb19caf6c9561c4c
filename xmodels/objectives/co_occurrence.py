"""GloVe's objective: vectors whose products are the logarithms of co-occurrences (Pennington et al., 2014, equation 8)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.gradients import scale_gradient
from xmodels.objectives.base import Objective


class CoOccurrence(Objective):
    """f(X) (w . c + b + b' - log X)^2 / 2 for each pair of a word w and a context word c that counts X.

    f(X) = min(1, (X / x_max)^alpha). As in the released code, the loss is half of the paper's, a step sums over its pairs, and the
    learning rate of the vectors is `vector_rate` times that of the biases.

    Args:
        x_max: from which count on a pair weighs 1.
        alpha: of f.
        vector_rate: the factor of the gradients of vectors.
    """

    reads = {
        "center_ids": Feature((None,)),
        "context_ids": Feature((None,)),
        "pair_weights": Feature((None,), "float32"),
    }
    needs = reads
    sums_examples = True

    def __init__(self, x_max: float = 100.0, alpha: float = 0.75, vector_rate: float = 0.05, **kwargs):
        super().__init__(**kwargs)
        self.x_max, self.alpha, self.vector_rate = x_max, alpha, vector_rate

    def forward(self, backbone, batch, training=None):
        words, contexts, *biases = backbone.pair_parts(batch["center_ids"], batch["context_ids"])
        words, contexts = (
            scale_gradient(ops.cast(x, "float32"), self.vector_rate) for x in (words, contexts)
        )  # (B, P, D)
        word_biases, context_biases = (ops.cast(x, "float32") for x in biases)
        return {"estimates": ops.sum(words * contexts, axis=-1) + word_biases + context_biases}  # (B, P)

    def score(self, outputs, batch, backbone):
        counts = batch["pair_weights"]
        there = ops.cast(counts > 0, "float32")
        differences = outputs["estimates"] - ops.log(ops.where(counts > 0, counts, 1.0))
        losses = 0.5 * self.importance(counts) * ops.square(differences)
        return {"co_occurrence": (ops.sum(losses * there), ops.sum(there))}, {}

    def importance(self, counts):
        """Returns f of counts: how much a pair weighs."""
        return ops.minimum(1.0, ops.power(counts / self.x_max, self.alpha))

    def counts(self, batch):
        there = ops.cast(batch["pair_weights"] > 0, "float32")
        return {"pairs": (ops.sum(there), ops.cast(ops.size(there), "float32"))}
