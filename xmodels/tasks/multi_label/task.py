"""Name all labels that suit a text, or a pair of texts: any number of them."""

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.tasks.classify.task import Classify

THRESHOLD = 0.5  # of a label, until an evaluation set chooses one


class MultiLabel(Classify):
    """A classifier with a sigmoid for each label; the loss of a text is the mean of the binary cross-entropies of its labels.

    Args:
        separator: what stands between labels in a file.
    """

    title = "Classifier of texts that have several labels"
    reads = {"token_ids": Feature((None,)), "labels": Feature((None,), "float32")}
    signature = {"probabilities": Feature((None,), "float32")}

    def __init__(self, config, labels, reading=None, separator=None, **kwargs):
        super().__init__(config, labels, reading, **kwargs)
        self.settings = {"thresholds": [THRESHOLD] * len(self.label_names)}
        if separator is not None:
            self.settings["label_separator"] = separator

    def score(self, outputs, batch, backbone):
        truth, weights = ops.cast(batch["labels"], "float32"), ops.cast(batch["example_weights"], "float32")
        losses = keras.losses.binary_crossentropy(truth, outputs["logits"], from_logits=True)  # (B,)
        right = ops.cast((outputs["logits"] > 0) == (truth > 0.5), "float32")  # (B, C)
        total = ops.sum(weights)
        return (
            {"multi_label": (ops.sum(losses * weights), total)},
            {"exact_match": (ops.sum(ops.min(right, axis=-1) * weights), total)},
        )

    def predictions(self, outputs, batch, backbone):
        return {}

    def predict(self, outputs):
        return {"probabilities": ops.sigmoid(outputs["logits"])}
