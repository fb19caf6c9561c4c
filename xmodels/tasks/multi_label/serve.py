"""Strings in, all labels that suit them out. The vocabulary, the tokenizer, labels and thresholds are part of the graph."""

import numpy as np
import tensorflow as tf

from xmodels.tasks.base.signatures import Column
from xmodels.tasks.classify import serve

ROUNDING = 1e-4  # probabilities this near to their threshold are not compared


class Server(serve.LabelServer):
    """Any number of labels of each text or pair."""

    title, model = "# A classifier of texts with several labels exported by xmodels", "labels"
    inside = "The vocabulary, the tokenizer, the labels and their thresholds are inside."
    numbers = ("probabilities",)

    def answer(self, text, text_pair=None):
        """Returns probabilities float32 (B, C), and chosen bool (B, C), of one or two strings (B,)."""
        return self.write(self.outputs(self.tokens(text, text_pair)))

    def write(self, numbers, *texts):
        probabilities = numbers["probabilities"]
        return {
            "probabilities": probabilities,
            "chosen": probabilities >= tf.constant(self.predictor.thresholds, tf.float32),
            "labels": tf.tile(self.labels[None], [tf.shape(probabilities)[0], 1]),
        }

    def columns(self):
        return [
            Column("probabilities", "BC", "in the order of the labels"),
            Column("chosen", "BC", "whether a label suits the text: its probability reaches its threshold"),
            Column("labels", "BC", "the names, the same for each text"),
        ]

    def expected(self, row, prediction, found):
        wanted = np.array(list(prediction.probabilities.values()))
        chosen, near = wanted >= self.predictor.thresholds, np.abs(wanted - self.predictor.thresholds) <= ROUNDING
        return {
            "probabilities": wanted, "chosen": np.where(near, found["chosen"], chosen), "labels": self.predictor.labels
        }  # fmt: skip

    def from_served(self, found, inputs):
        return {"probabilities": found["probabilities"]}

    def named(self, prediction):
        return tuple(np.array(list(prediction.probabilities.values())) >= self.predictor.thresholds)

    def notes(self):
        thresholds = ", ".join(f"{threshold:.4g}" for threshold in self.predictor.thresholds)
        return f"The thresholds of the labels, in their order: {thresholds}.\n\n{super().notes()}"
