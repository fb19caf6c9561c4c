"""Find the answer to a question in a text, as its first and its last token (Devlin et al., 2018, sections 4.2 and 4.3)."""

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.interfaces.reading import Reading
from xmodels.tasks.base.global_tokens import mark, of_question
from xmodels.tasks.base.task import Task


class AnswerSpan(Task):
    """One Dense layer that gives each token two numbers: how well the answer begins there, and how well it ends there.

    Both go through a softmax over all places of the sequence, padding among them, as in Google's code. Where a window does not
    hold the answer, the token that stands for all of the sequence, such as `[CLS]`, is right for both.

    Args:
        config: the configuration of the backbone.
        labels: none; answers have no names.
        reading: how the network reads texts; by default as BERT does.
        settings: of `windows.Settings`, by name; they stay with the run.
    """

    title = "Finder of answers in texts"
    reads = {"token_ids": Feature((None,)), "start_positions": Feature(()), "end_positions": Feature(())}
    signature = {"start_logits": Feature((None,), "float32"), "end_logits": Feature((None,), "float32")}
    names_labels = False
    reads_states = True

    def __init__(self, config, labels=(), reading=None, settings=None, **kwargs):
        super().__init__(**kwargs)
        self.reading, mix = (reading or Reading()).build_layer_mix()
        if mix is not None:
            self.layer_mix = mix
        self.settings = dict(settings or {})
        self.add_head(config)

    def add_head(self, config) -> None:
        """Makes the layers; called once."""
        self.head = keras.layers.Dense(2, kernel_initializer=self.reading.initializer(config), name="head")

    def forward(self, backbone, batch, training=None):
        outputs = self.reading.states(backbone, mark(backbone, batch, of_question(self.reading.frame)), training)
        logits = ops.cast(self.head(outputs["sequence_output"]), "float32")  # (B, L, 2)
        return {**outputs, "start_logits": logits[..., 0], "end_logits": logits[..., 1]}

    def score(self, outputs, batch, backbone):
        loss, metrics = self.span_score(outputs, batch)
        return {"answer_span": loss}, metrics

    def span_score(self, outputs, batch):
        """Returns half the sum of both cross-entropies with its weight, and the metrics."""
        weights = ops.cast(batch["example_weights"], "float32")  # (B,)
        total, metrics = 0.0, {}
        for name in ("start", "end"):
            logits, place = outputs[f"{name}_logits"], ops.cast(batch[f"{name}_positions"], "int32")
            total = total + ops.sum(place_losses(logits, place) * weights) / 2
            right = ops.cast(ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), place), "float32")
            metrics[f"{name}_accuracy"] = ops.sum(right * weights), ops.sum(weights)
        return (total, ops.sum(weights)), metrics

    def predictions(self, outputs, batch, backbone):
        return {f"{name}_positions": ops.argmax(outputs[f"{name}_logits"], axis=-1) for name in ("start", "end")}

    def predict(self, outputs):
        return {name: outputs[name] for name in self.signature}


def place_losses(logits, places):
    """Returns the cross-entropy of a place of each row, float32 (B,), of logits (B, L) and places int32 (B,). One behind the
    row gives 0, as in run_squad.py."""
    last = ops.shape(logits)[1] - 1
    chosen = ops.take_along_axis(
        ops.log_softmax(logits, axis=-1), ops.expand_dims(ops.minimum(places, last), 1), axis=1
    )
    return ops.where(places > last, 0.0, -chosen[:, 0])
