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
        class_weights: what an example of each class counts in the loss; by default all the same.
    """

    title = "Text classifier"
    orders = None  # in which the texts of an example are read; None: once, as they stand
    reads = {"token_ids": Feature((None,)), "labels": Feature(())}
    signature = {"label_ids": Feature(()), "probabilities": Feature((None,), "float32")}

    def __init__(self, config, labels, reading=None, class_weights=None, **kwargs):
        super().__init__(**kwargs)
        self.label_names, self.class_weights = tuple(labels), class_weights and tuple(class_weights)
        self.add_head(config, len(self.label_names), reading or Reading())

    def forward(self, backbone, batch, training=None):
        outputs = self.reading.outputs(backbone, batch, training)
        return {**outputs, "logits": self.answer(outputs, batch, training)}

    def answer(self, outputs, batch, training=None):
        """The logits of a batch that the network has read: float32 (B, C)."""
        return self.logits_of(self.reading.summary(outputs, batch), training)

    def score(self, outputs, batch, backbone):
        labels, logits, weights = batch["labels"], outputs["logits"], batch["example_weights"]
        shares = weights
        if self.class_weights is not None:
            shares = ops.cast(weights, "float32") * ops.take(
                ops.convert_to_tensor(self.class_weights, "float32"), labels
            )
        losses = {"classify": weighted_cross_entropy(labels, logits, shares)}
        return losses, {"accuracy": weighted_accuracy(labels, logits, weights)}

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(outputs["logits"], axis=-1)}

    def predict(self, outputs):
        probabilities = ops.softmax(outputs["logits"], axis=-1)  # (B, C)
        return {"label_ids": ops.cast(ops.argmax(probabilities, axis=-1), "int32"), "probabilities": probabilities}
