"""Classification of the two segments of an example: the base class of `NextSentence`, `SentenceOrder` and others."""

import keras
from keras import ops

from xmodels.layers.initialization import truncated_normal
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import score_classes


class SegmentPair(Objective):
    """Classifies the pooled output (B, D) with a Dense layer.

    A subclass declares the label, int (B,), in `needs` and in `classes`, with the names of its values, and in `reads` what
    the records hold.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        initializer = truncated_normal(config.initializer_stddev)
        ((self._labels, (_, names)),) = self.classes.items()
        self.head = keras.layers.Dense(len(names), kernel_initializer=initializer, dtype="float32", name="head")

    def score(self, outputs, batch, backbone):
        logits = self.head(outputs["pooled_output"])  # (B, C)
        answer = batch[self._labels], logits, batch["example_weights"]
        loss, accuracy = score_classes(*answer)
        return {self.label: loss}, {f"{self.label}_accuracy": accuracy}

    def predictions(self, outputs, batch, backbone):
        return {self._labels: ops.argmax(self.head(outputs["pooled_output"]), axis=-1)}
