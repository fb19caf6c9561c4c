"""Tag every word of a text: named entities, chunks, parts of speech (Devlin et al., 2018, section 5.3)."""

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.interfaces.reading import Reading
from xmodels.layers.dropout import Dropout
from xmodels.objectives.measures import weighted_accuracy, weighted_cross_entropy
from xmodels.tasks.base.task import Task


class Tag(Task):
    """Dropout and one Dense layer on the state of each token. The first token of a word has its tag; others do not count.

    Args:
        config: the configuration of the backbone.
        labels: the names of the C tags, in the order of their ids.
        reading: how the network reads texts; by default as BERT does.
    """

    title = "Tagger of words"
    reads = {"token_ids": Feature((None,)), "labels": Feature((None,)), "label_weights": Feature((None,), "float32")}
    signature = {"label_ids": Feature((None,)), "probabilities": Feature((None,), "float32")}

    def __init__(self, config, labels, reading=None, **kwargs):
        super().__init__(**kwargs)
        self.label_names = tuple(labels)
        self.reading = reading or Reading()
        initializer = self.reading.initializer(config)
        self.head = keras.layers.Dense(len(self.label_names), kernel_initializer=initializer, name="head")
        self.dropout = Dropout(config.dropout)

    def forward(self, backbone, batch, training=None):
        outputs = backbone(batch, training=training)
        hidden = self.dropout(outputs["sequence_output"], training=training)  # (B, L, D)
        return {**outputs, "logits": ops.cast(self.head(hidden), "float32")}  # (B, L, C)

    def score(self, outputs, batch, backbone):
        weights = batch["label_weights"] * ops.expand_dims(ops.cast(batch["example_weights"], "float32"), 1)  # (B, L)
        answer = batch["labels"], outputs["logits"], weights
        return {"tag": weighted_cross_entropy(*answer)}, {"accuracy": weighted_accuracy(*answer)}

    def predict(self, outputs):
        probabilities = ops.softmax(outputs["logits"], axis=-1)  # (B, L, C)
        label_ids = ops.cast(ops.argmax(probabilities, axis=-1), "int32")  # (B, L)
        return {"label_ids": label_ids, "probabilities": ops.max(probabilities, axis=-1)}
