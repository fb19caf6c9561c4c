"""Classify a text, or a pair of texts (Devlin et al., 2018, section 4.1)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.interfaces.reading import Reading
from xmodels.objectives.measures import weighted_accuracy, weighted_cross_entropy
from xmodels.tasks.base.task import SummaryTask


class Classify(SummaryTask):
    """Dropout and one Dense layer on the state that answers, or two where the system's heads have two.

    Args:
        config: the configuration of the backbone.
        labels: the names of the C classes, in the order of their ids.
        reading: how the network reads texts; by default as BERT does.
    """

    title = "Text classifier"
    orders = None  # in which the texts of an example are read; None: once, as they stand
    reads = {"token_ids": Feature((None,)), "labels": Feature(())}
    signature = {"label_ids": Feature(()), "probabilities": Feature((None,), "float32")}

    def __init__(self, config, labels, reading=None, **kwargs):
        super().__init__(**kwargs)
        self.label_names = tuple(labels)
        self.add_head(config, len(self.label_names), reading or Reading())

    def forward(self, backbone, batch, training=None):
        outputs = self.reading.outputs(backbone, batch, training)
        return {**outputs, "logits": self.answer(outputs, batch, training)}

    def answer(self, outputs, batch, training=None):
        """The logits of a batch that the network has read: float32 (B, C)."""
        return self.logits_of(self.reading.summary(outputs, batch), training)

    def score(self, outputs, batch, backbone):
        answer = batch["labels"], outputs["logits"], batch["example_weights"]
        return {"classify": weighted_cross_entropy(*answer)}, {"accuracy": weighted_accuracy(*answer)}

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(outputs["logits"], axis=-1)}

    def predict(self, outputs):
        probabilities = ops.softmax(outputs["logits"], axis=-1)  # (B, C)
        return {"label_ids": ops.cast(ops.argmax(probabilities, axis=-1), "int32"), "probabilities": probabilities}
