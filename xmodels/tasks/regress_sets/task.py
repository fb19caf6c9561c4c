"""Predict a number for a set of vectors, such as its largest element (Lee et al., 2019, section 5.1)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.tasks.base.sets import SET, SetTask


class RegressSets(SetTask):
    """The square of the difference is the loss.

    Args:
        config: the configuration of the backbone.
        labels: none; numbers have no names.
    """

    title = "Regression of sets of vectors"
    reads = {**SET, "labels": Feature((), "float32")}
    signature = {"scores": Feature((), "float32")}

    def __init__(self, config, labels=(), **kwargs):
        super().__init__(**kwargs)
        self.add_head(config, 1)

    def score(self, outputs, batch, backbone):
        weights = ops.cast(batch["example_weights"], "float32")  # (B,)
        difference = outputs["logits"][:, 0] - ops.cast(batch["labels"], "float32")
        return {"squared_error": (ops.sum(ops.square(difference) * weights), ops.sum(weights))}, {}

    def predictions(self, outputs, batch, backbone):
        return {"labels": outputs["logits"][:, 0]}

    def predict(self, outputs):
        return {"scores": outputs["logits"][:, 0]}
