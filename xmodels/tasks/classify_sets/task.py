"""Classify a set of vectors, in whatever order they come (Lee et al., 2019, section 5.2)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.tasks.base.sets import SET, SetTask
from xmodels.tasks.base.task import score_labels


class ClassifySets(SetTask):
    """Cross-entropy of the C classes.

    Args:
        config: the configuration of the backbone.
        labels: the names of the classes, in the order of their ids.
        class_weights: what an example of each class counts in the loss; by default all the same.
    """

    title = "Classifier of sets of vectors"
    reads = {**SET, "labels": Feature(())}
    signature = {"label_ids": Feature(()), "probabilities": Feature((None,), "float32")}
    names_labels = True

    def __init__(self, config, labels, class_weights=None, **kwargs):
        super().__init__(**kwargs)
        self.label_names, self.class_weights = tuple(labels), class_weights and tuple(class_weights)
        self.add_head(config, len(self.label_names))

    def score(self, outputs, batch, backbone):
        loss, accuracy = score_labels(outputs["logits"], batch, self.class_weights)
        return {"classify_sets": loss}, {"accuracy": accuracy}

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(outputs["logits"], axis=-1)}

    def predict(self, outputs):
        probabilities = ops.softmax(outputs["logits"], axis=-1)  # (B, C)
        return {"label_ids": ops.cast(ops.argmax(probabilities, axis=-1), "int32"), "probabilities": probabilities}
