"""Negative sampling: distinguish the context words of a word from random words (Mikolov et al., 2013b, equation 4)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.objectives.base import Objective


class NegativeSampling(Objective):
    """-log sigmoid(w . c) - sum over K negatives n of log sigmoid(-w . n), for each pair of a word w and a context word c.

    Negatives that equal the context word are skipped. word2vec's learning rate applies to each pair, so the loss of a step
    is the sum over its pairs; the log shows the mean.
    """

    reads = {"token_ids": Feature((None,)), "segment_lengths": Feature((None,))}
    needs = {
        "center_ids": Feature((None,)),
        "context_ids": Feature((None,)),
        "pair_weights": Feature((None,), "float32"),
        "negative_ids": Feature((None, None)),
    }
    sums_examples = True

    def forward(self, backbone, batch, training=None):
        positive, negative = backbone.pair_scores(batch["center_ids"], batch["context_ids"], batch["negative_ids"])
        return {"positive": ops.cast(positive, "float32"), "negative": ops.cast(negative, "float32")}

    def score(self, outputs, batch, backbone):
        others = ops.cast(batch["negative_ids"] != ops.expand_dims(batch["context_ids"], -1), "float32")  # (B, P, K)
        losses = ops.softplus(-outputs["positive"]) + ops.sum(ops.softplus(outputs["negative"]) * others, axis=-1)
        weights = batch["pair_weights"]
        return {"negative_sampling": (ops.sum(losses * weights), ops.sum(weights))}, {}

    def counts(self, batch):
        words, weights = ops.cast(batch["padding_mask"], "float32"), batch["pair_weights"]
        return {
            name: (ops.sum(x), ops.cast(ops.size(x), "float32")) for name, x in (("words", words), ("pairs", weights))
        }
