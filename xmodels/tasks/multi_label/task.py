"""Predict all labels that apply to a text, or a pair of texts: any number of them."""

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.tasks.classify.task import Classify
from xmodels.tasks.classify.thresholds import THRESHOLD

SOFTMAX = "softmax"  # in the settings of a run


class MultiLabel(Classify):
    """A classifier with a sigmoid for each label; the loss of a text is the mean of the binary cross-entropies of its labels.

    With a softmax over all labels, the loss of a text is the mean of the cross-entropies of the labels that it has, which is the
    expected one of fastText's softmax: that draws one of them (Joulin et al., 2016, arXiv 1607.01759). Texts without a label teach
    nothing then.

    Args:
        class_weights: (C, 2), what a text counts in the loss of each label: without it, and with it; by default all the same. A
            softmax takes the second.
        separator: what stands between labels in a file.
        softmax: whether labels share a softmax.
        threshold: of the probability of each label, until an evaluation set has chosen better ones.
    """

    title = "Classifier of texts that have several labels"
    reads = {"token_ids": Feature((None,)), "labels": Feature((None,), "float32")}
    signature = {"probabilities": Feature((None,), "float32")}

    def __init__(
        self,
        config,
        labels,
        reading=None,
        class_weights=None,
        separator=None,
        softmax=False,
        threshold=THRESHOLD,
        **kwargs,
    ):
        super().__init__(config, labels, reading, class_weights, **kwargs)
        self.softmax = softmax
        self.settings = {"thresholds": [threshold] * len(self.label_names)}
        if separator is not None:
            self.settings["label_separator"] = separator
        if softmax:
            self.settings[SOFTMAX] = True

    def score(self, outputs, batch, backbone):
        truth, weights = ops.cast(batch["labels"], "float32"), ops.cast(batch["example_weights"], "float32")
        if self.softmax:
            return self.score_shares(outputs["logits"], truth, weights)
        right = ops.cast((outputs["logits"] > 0) == (truth > 0.5), "float32")  # (B, C)
        total = ops.sum(weights)
        accuracy = ops.sum(ops.min(right, axis=-1) * weights), total
        return {"multi_label": self.loss(outputs["logits"], truth, weights)}, {"accuracy": accuracy}

    def score_shares(self, logits, truth, weights):
        """Returns losses and metrics of a softmax, of logits and truth (B, C), and the weights of texts (B,).

        `precision_1` is how often the likeliest label is one of the text's.
        """
        weights = weights * ops.cast(ops.any(truth > 0.5, axis=-1), "float32")
        each = 1.0 if self.class_weights is None else ops.convert_to_tensor(self.class_weights, "float32")[:, 1]
        shares = each * truth / ops.maximum(ops.sum(truth, axis=-1, keepdims=True), 1.0)  # (B, C)
        losses = -ops.sum(shares * ops.log_softmax(logits, axis=-1), axis=-1)
        first = ops.take_along_axis(truth, ops.expand_dims(ops.argmax(logits, axis=-1), 1), axis=1)[:, 0]
        total = ops.sum(weights)
        loss = ops.sum(losses * weights), ops.sum(ops.sum(shares, axis=-1) * weights)
        return {"multi_label": loss}, {"precision_1": (ops.sum(first * weights), total)}

    def loss(self, logits, truth, weights):
        """Returns (sum, weight) of logits and truth (B, C), and the weights of texts (B,)."""
        if self.class_weights is None:
            losses = keras.losses.binary_crossentropy(truth, logits, from_logits=True)  # (B,)
            return ops.sum(losses * weights), ops.sum(weights)
        each = ops.convert_to_tensor(self.class_weights, "float32")  # (C, 2)
        shares = ops.where(truth > 0.5, each[:, 1], each[:, 0]) * ops.expand_dims(weights, 1)  # (B, C)
        losses = ops.softplus(logits) - logits * truth
        count = truth.shape[1]
        return ops.sum(losses * shares) / count, ops.sum(shares) / count

    def predictions(self, outputs, batch, backbone):
        return {}

    def predict(self, outputs):
        logits = outputs["logits"]
        return {"probabilities": ops.softmax(logits, axis=-1) if self.softmax else ops.sigmoid(logits)}
