"""Binary classification of every token: the base class of `Capitals` and `RepeatedTokens`."""

import keras
from keras import ops

from xmodels.layers.initialization import truncated_normal
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import area_under_roc, score_classes


class TokenLabels(Objective):
    """Classifies the state of each token as 0 or 1 with a Dense layer. The loss is the mean over the tokens that count.

    A subclass declares the label, int (B, L), in `reads` and in `needs`: 0, 1, or 2 for tokens that do not count. Where nearly all
    labels are alike, the area under the ROC curve tells more than the accuracy, since always giving the commoner one has .5.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        (self._labels,) = self.reads
        initializer = truncated_normal(config.initializer_stddev)
        self.head = keras.layers.Dense(2, kernel_initializer=initializer, dtype="float32", name="head")

    def score(self, outputs, batch, backbone):
        logits = self.head(outputs["sequence_output"])  # (B, L, 2)
        labels = batch[self._labels]
        weights = ops.cast(labels < 2, "float32") * ops.expand_dims(ops.cast(batch["example_weights"], "float32"), -1)
        answer = ops.minimum(labels, 1), logits, weights
        share = ops.sum(ops.cast(ops.equal(labels, 1), "float32") * weights), ops.sum(weights)
        loss, accuracy = score_classes(*answer)
        return {self.label: loss}, {
            f"{self.label}_accuracy": accuracy,
            f"{self.label}_share": share,
            f"{self.label}_auc": area_under_roc(answer[0], logits[..., 1] - logits[..., 0], weights),
        }

    def predictions(self, outputs, batch, backbone):
        return {self._labels: ops.argmax(self.head(outputs["sequence_output"]), axis=-1)}
