"""Predict a number for a text, or a pair of texts, such as the similarity of two (Devlin et al., 2018, section 4.1: STS-B)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.interfaces.reading import Reading
from xmodels.tasks.base.task import SummaryTask


class Regress(SummaryTask):
    """Dropout and one Dense layer with one output on the state that answers, or two layers where the system's heads have two;
    the square of the difference is the loss.

    Args:
        config: the configuration of the backbone.
        labels: none; numbers have no names.
        reading: how the network reads texts; by default as BERT does.
        start: the number that the bias answers at first. That of the training rows' mean saves the steps that would move it there.
    """

    title = "Regression of texts"
    reads = {"token_ids": Feature((None,)), "labels": Feature((), "float32")}
    signature = {"scores": Feature((), "float32")}
    names_labels = False

    def __init__(self, config, labels=(), reading=None, start=0.0, **kwargs):
        super().__init__(**kwargs)
        self.add_head(config, 1, reading or Reading(), start=start)

    def forward(self, backbone, batch, training=None):
        outputs, state = self.summarized(backbone, batch, training)
        return {**outputs, "scores": self.logits_of(state, training)[:, 0]}  # (B,)

    def score(self, outputs, batch, backbone):
        weights = ops.cast(batch["example_weights"], "float32")  # (B,)
        difference = outputs["scores"] - ops.cast(batch["labels"], "float32")
        return {"squared_error": (ops.sum(ops.square(difference) * weights), ops.sum(weights))}, {}

    def predictions(self, outputs, batch, backbone):
        return {"labels": outputs["scores"]}

    def predict(self, outputs):
        return {"scores": outputs["scores"]}
