"""Choose one of several texts as the answer (Radford et al., 2018, section 3.3)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.objectives.measures import weighted_accuracy, weighted_cross_entropy
from xmodels.tasks.base.sequences import rows, split_sequences
from xmodels.tasks.base.task import SummaryTask

NEVER = -1e9  # the logit of a choice that is not there


class Choose(SummaryTask):
    """One number for each choice, from dropout and a Dense layer on the state that answers; a softmax over the choices.

    `token_ids` are (B, C, L), and `choice_weights` (B, C) is 0 where an example has fewer choices.

    Args:
        config: the configuration of the backbone.
        labels: none; choices have no names.
        reading: how the network reads texts.
    """

    title = "Chooser of answers"
    reads = {"token_ids": Feature((None, None)), "labels": Feature(()), "choice_weights": Feature((None,), "float32")}
    signature = {"choices": Feature(()), "probabilities": Feature((None,), "float32")}
    names_labels = False

    def __init__(self, config, labels, reading, **kwargs):
        super().__init__(**kwargs)
        self.add_head(config, 1, reading)

    def forward(self, backbone, batch, training=None):
        sequences = rows(batch)
        outputs, state = self.summarized(backbone, sequences, training)
        numbers = self.logits_of(state, training)  # (B C, 1)
        logits = ops.squeeze(split_sequences(numbers, ops.shape(batch["token_ids"])[1]), -1)  # (B, C)
        return {**outputs, "logits": ops.where(ops.cast(batch["choice_weights"], "bool"), logits, NEVER)}

    def score(self, outputs, batch, backbone):
        answer = batch["labels"], outputs["logits"], batch["example_weights"]
        return {"choose": weighted_cross_entropy(*answer)}, {"accuracy": weighted_accuracy(*answer)}

    def predict(self, outputs):
        probabilities = ops.softmax(outputs["logits"], axis=-1)  # (B, C)
        return {"choices": ops.cast(ops.argmax(probabilities, axis=-1), "int32"), "probabilities": probabilities}
