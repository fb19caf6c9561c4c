"""Classify a set of vectors, in whatever order they come (Lee et al., 2019, section 5.2)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.objectives.measures import weighted_accuracy, weighted_cross_entropy
from xmodels.tasks.base.sets import SET, SetTask


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
        labels, logits, weights = batch["labels"], outputs["logits"], batch["example_weights"]
        shares = weights
        if self.class_weights is not None:
            each = ops.convert_to_tensor(self.class_weights, "float32")
            shares = ops.cast(weights, "float32") * ops.take(each, labels)
        losses = {"classify_sets": weighted_cross_entropy(labels, logits, shares)}
        return losses, {"accuracy": weighted_accuracy(labels, logits, weights)}

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(outputs["logits"], axis=-1)}

    def predict(self, outputs):
        probabilities = ops.softmax(outputs["logits"], axis=-1)  # (B, C)
        return {"label_ids": ops.cast(ops.argmax(probabilities, axis=-1), "int32"), "probabilities": probabilities}
