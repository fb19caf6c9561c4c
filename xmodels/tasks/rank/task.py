"""Order texts by how well they answer a query, from lists of candidates whose relevance is known (Nogueira and Cho, 2019)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.interfaces.reading import Reading
from xmodels.tasks.base.sequences import rows, split_sequences
from xmodels.tasks.base.task import SummaryTask

NEVER = -1e9  # the score of a candidate that is not there


def listwise(scores, labels, there):
    """Returns cross-entropy of a softmax over the candidates of a list against their shares of its relevance (Cao et al., 2007:
    ListNet, with relevance for gains).

    Args:
        scores, labels: float32 (B, C).
        there: float32 (B, C), 0 where a list has fewer candidates, or counts for nothing.

    Returns:
        (sum over lists, number of lists) of those with a relevant candidate and another one beside it.
    """
    labels = labels * there
    total = ops.sum(labels, axis=-1)  # (B,)
    logs = ops.log_softmax(ops.where(there > 0, scores, NEVER), axis=-1)
    losses = -ops.sum(labels * ops.where(there > 0, logs, 0.0), axis=-1) / ops.maximum(total, 1e-9)
    counted = ops.cast(ops.logical_and(total > 0, ops.sum(there, axis=-1) > 1), "float32")
    return ops.sum(losses * counted), ops.sum(counted)


def pairwise(scores, labels, there):
    """Returns -log sigmoid of the difference of scores, over all pairs of a list of which the first is more relevant (Burges et
    al., 2005: RankNet). Arguments as in `listwise`.

    Returns:
        (sum over pairs, number of pairs).
    """
    pairs = ops.cast(ops.expand_dims(labels, 2) > ops.expand_dims(labels, 1), "float32")  # (B, C, C)
    pairs = pairs * ops.expand_dims(there, 2) * ops.expand_dims(there, 1)
    differences = ops.expand_dims(scores, 2) - ops.expand_dims(scores, 1)
    return ops.sum(ops.softplus(-differences) * pairs), ops.sum(pairs)


LOSSES = {"listwise": listwise, "pairwise": pairwise}


class Rank(SummaryTask):
    """One number for each candidate, from dropout and a Dense layer on the state that answers for query and candidate.

    `token_ids` are (B, C, L), and `choice_weights` (B, C) is 0 where a list has fewer candidates; or (B, L), one candidate each.

    Args:
        config: the configuration of the backbone.
        labels: none; candidates have no names.
        reading: how the network reads texts; by default as BERT does.
        loss: of `LOSSES`; what is learnt, nothing that answers depend on.
        draw: an op on batches that draws the candidates of lists anew; None leaves them as they stand.
        scale: multiplies scores in the loss, and before they become probabilities (gamma of Liu et al., 2019, equation 5).
    """

    title = "Ranker of texts"
    reads = {
        "token_ids": Feature((None, None)),
        "labels": Feature((None,), "float32"),
        "choice_weights": Feature((None,), "float32"),
    }
    signature = {"scores": Feature((None,), "float32")}
    names_labels = False

    def __init__(self, config, labels=(), reading=None, loss=listwise, scale=1.0, draw=None, **kwargs):
        super().__init__(**kwargs)
        self.loss, self.scale, self.draw = loss, scale, draw
        self.add_head(config, 1, reading or Reading())

    @property
    def settings(self) -> dict:
        return {} if self.scale == 1.0 else {"scale": self.scale}

    def transform(self):
        return self.draw or super().transform()

    def forward(self, backbone, batch, training=None):
        sequences = rows(batch)
        outputs, state = self.summarized(backbone, sequences, training)
        scores = self.logits_of(state, training)[:, 0]  # (B C,)
        several = len(batch["token_ids"].shape) == 3
        return {**outputs, "scores": split_sequences(scores, ops.shape(batch["token_ids"])[1]) if several else scores}

    def score(self, outputs, batch, backbone):
        weights = ops.expand_dims(ops.cast(batch["example_weights"], "float32"), 1)  # (B, 1)
        there = ops.cast(batch["choice_weights"], "float32") * weights
        scores, labels = self.scale * outputs["scores"], ops.cast(batch["labels"], "float32")
        return {"rank": self.loss(scores, labels, there)}, {}

    def predict(self, outputs):
        return {"scores": outputs["scores"]}
