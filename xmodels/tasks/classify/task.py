"""Classify a text, or a pair of texts (Devlin et al., 2018, section 4.1)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.interfaces.reading import Reading
from xmodels.tasks.base.task import SummaryTask, score_labels


class Classify(SummaryTask):
    """Dropout and one Dense layer on the state that answers, or two where the system's heads have two.

    Args:
        config: the configuration of the backbone.
        labels: the names of the C classes, in the order of their ids.
        reading: how the network reads texts; by default as BERT does.
        class_weights: what an example of each class counts in the loss; by default all the same.
        positive_label: of two classes, that of which scores speak, and which is named from `threshold`; by default the second.
        threshold: of its probability; None names the likeliest class.
        label_counts: how often each class occurs, for a hierarchical softmax in place of a flat one.
    """

    title = "Text classifier"
    reads = {"token_ids": Feature((None,)), "labels": Feature(())}
    signature = {"label_ids": Feature(()), "probabilities": Feature((None,), "float32")}

    def __init__(
        self,
        config,
        labels,
        reading=None,
        class_weights=None,
        positive_label=None,
        threshold=None,
        label_counts=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.label_names, self.class_weights = tuple(labels), class_weights and tuple(class_weights)
        given = {"positive_label": positive_label, "threshold": threshold, "label_counts": label_counts}
        self.settings = {name: value for name, value in given.items() if value is not None}
        tree = {"label_counts": label_counts} if label_counts else {}  # heads of other kinds take none
        self.add_head(config, len(self.label_names), reading or Reading(), **tree)

    @property
    def label_counts(self) -> list[int] | None:
        """How often each class occurs, which a model folder keeps for a hierarchical softmax; None for a flat one."""
        return self.settings.get("label_counts")

    def forward(self, backbone, batch, training=None):
        outputs = self.reading.outputs(backbone, batch, training)
        return {**outputs, "logits": self.answer(outputs, batch, training)}

    def answer(self, outputs, batch, training=None):
        """Returns the logits of a batch that the network has read: float32 (B, C)."""
        return self.logits_of(self.summary(outputs, batch, training), training)

    def score(self, outputs, batch, backbone):
        loss, accuracy = score_labels(outputs["logits"], batch, self.class_weights)
        return {"classify": loss}, {"accuracy": accuracy}

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(outputs["logits"], axis=-1)}

    def predict(self, outputs):
        probabilities = ops.softmax(outputs["logits"], axis=-1)  # (B, C)
        return {"label_ids": ops.cast(self.name_labels(probabilities), "int32"), "probabilities": probabilities}

    def name_labels(self, probabilities):
        """Returns the ids of the labels that are named, (B,): the likeliest, or by the threshold."""
        if (threshold := self.settings.get("threshold")) is None:
            return ops.argmax(probabilities, axis=-1)
        positive = self.label_names.index(self.settings.get("positive_label", self.label_names[-1]))
        return ops.where(probabilities[:, positive] >= threshold, positive, 1 - positive)
