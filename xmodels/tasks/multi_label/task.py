"""Predict all labels that apply to a text, or a pair of texts: any number of them."""

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.tasks.classify.task import Classify
from xmodels.tasks.classify.thresholds import THRESHOLD


class MultiLabel(Classify):
    """A classifier with a sigmoid for each label; the loss of a text is the mean of the binary cross-entropies of its labels.

    Args:
        class_weights: (C, 2), what a text counts in the loss of each label: without it, and with it; by default all the same.
        separator: what stands between labels in a file.
    """

    title = "Classifier of texts that have several labels"
    reads = {"token_ids": Feature((None,)), "labels": Feature((None,), "float32")}
    signature = {"probabilities": Feature((None,), "float32")}

    def __init__(self, config, labels, reading=None, class_weights=None, separator=None, **kwargs):
        super().__init__(config, labels, reading, class_weights, **kwargs)
        self.settings = {"thresholds": [THRESHOLD] * len(self.label_names)}
        if separator is not None:
            self.settings["label_separator"] = separator

    def score(self, outputs, batch, backbone):
        truth, weights = ops.cast(batch["labels"], "float32"), ops.cast(batch["example_weights"], "float32")
        right = ops.cast((outputs["logits"] > 0) == (truth > 0.5), "float32")  # (B, C)
        total = ops.sum(weights)
        accuracy = ops.sum(ops.min(right, axis=-1) * weights), total
        return {"multi_label": self.loss(outputs["logits"], truth, weights)}, {"accuracy": accuracy}

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
        return {"probabilities": ops.sigmoid(outputs["logits"])}
