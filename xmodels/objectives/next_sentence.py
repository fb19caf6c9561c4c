"""Next sentence prediction (Devlin et al., 2018, section 3.1, task 2)."""

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.initialization import truncated_normal
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import weighted_accuracy, weighted_cross_entropy


class NextSentence(Objective):
    """Does the second segment follow the first (0), or does it come from elsewhere (1)?"""

    reads = {"next_sentence_labels": Feature(())}

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        initializer = truncated_normal(config.initializer_stddev)
        self.head = keras.layers.Dense(2, kernel_initializer=initializer, dtype="float32", name="head")

    def score(self, outputs, batch, backbone):
        logits = self.head(outputs["pooled_output"])  # (B, 2)
        answer = batch["next_sentence_labels"], logits, batch["example_weights"]
        return {"next_sentence": weighted_cross_entropy(*answer)}, {
            "next_sentence_accuracy": weighted_accuracy(*answer)
        }

    def guesses(self, outputs, batch, backbone):
        return {"next_sentence_labels": ops.argmax(self.head(outputs["pooled_output"]), axis=-1)}
