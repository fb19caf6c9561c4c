"""Answer a question about a story with one of the answers seen in training (Dehghani et al., 2018, section 3.1)."""

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.adaptive_computation import ponder_cost
from xmodels.layers.initialization import glorot
from xmodels.objectives.measures import weighted_accuracy, weighted_cross_entropy
from xmodels.tasks.base.task import Task


class AnswerStory(Task):
    """One Dense layer on the mean of the states of sentences and question.

    Args:
        config: the configuration of the backbone.
        labels: the C answers, in the order of their ids.
        ponder_weight: of the mean of steps and remainder over sentences and question, where the network decides about its
            steps; the metric `steps` is then their mean number.
    """

    title = "Answers to questions about stories"
    reads = {"token_ids": Feature((None, None)), "segment_ids": Feature((None,)), "labels": Feature(())}
    signature = {"answer_ids": Feature(()), "answer_probabilities": Feature((None,), "float32")}

    def __init__(self, config, labels, ponder_weight: float = 0.01, **kwargs):
        super().__init__(**kwargs)
        self.label_names, self.ponder_weight = tuple(labels), ponder_weight
        self.head = keras.layers.Dense(len(self.label_names), kernel_initializer=glorot().inner(), name="head")

    def forward(self, backbone, batch, training=None):
        outputs = backbone(batch, training=training)
        real = ops.expand_dims(ops.cast(batch["padding_mask"], "float32"), -1)  # (B, S, 1)
        states = ops.cast(outputs["sequence_output"], "float32")
        pooled = ops.sum(states * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)  # (B, D)
        return {**outputs, "logits": ops.cast(self.head(pooled), "float32")}  # (B, C)

    def score(self, outputs, batch, backbone):
        answer = batch["labels"], outputs["logits"], batch["example_weights"]
        losses, metrics = {"answer": weighted_cross_entropy(*answer)}, {"accuracy": weighted_accuracy(*answer)}
        if "ponder_times" in outputs:
            counted = ops.expand_dims(batch["example_weights"], 1) * ops.cast(
                batch["padding_mask"], "float32"
            )  # (B, S)
            cost, count = ponder_cost(outputs["ponder_times"], outputs["remainders"], counted)
            losses["ponder"] = self.ponder_weight * cost, count
            metrics["steps"] = ops.sum(outputs["ponder_times"] * counted), count
        return losses, metrics

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(outputs["logits"], axis=-1)}

    def predict(self, outputs):
        probabilities = ops.softmax(outputs["logits"], axis=-1)  # (B, C)
        answers = ops.cast(ops.argmax(probabilities, axis=-1), "int32")  # (B,)
        return {"answer_ids": answers, "answer_probabilities": probabilities}
