"""Sequence to sequence: name each token of the target from the source and the target before it (Vaswani et al., 2017)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import smoothed_cross_entropy, weighted_accuracy, weighted_cross_entropy


class Seq2Seq(Objective):
    """Label-smoothed cross-entropy of the target. The network has the output matrix: its `logits`.

    The frame of the records writes `target_ids`, what the decoder reads, `labels` and `label_weights`, all (B, T).

    Args:
        label_smoothing: the share of probability that the target gives to other tokens (section 5.4). The metric
            `negative_log_likelihood`, whose exponential is the perplexity, knows none.
        corrupt: the op that makes source and target of a text, where records hold plain text.
    """

    reads = {"token_ids": Feature((None,))}
    needs = {"labels": Feature((None,)), "label_weights": Feature((None,), "float32")}
    context, accuracy = "before", "seq2seq_accuracy"

    def __init__(self, label_smoothing: float = 0.1, corrupt=None, **kwargs):
        super().__init__(**kwargs)
        self.label_smoothing, self.corrupt = label_smoothing, corrupt

    def transform(self):
        return self.corrupt or super().transform()

    def score(self, outputs, batch, backbone):
        return self.measured(batch, self.logits(outputs["sequence_output"], backbone))

    def measured(self, batch, logits):
        """Losses and metrics, as of `score`, of logits float32 (B, T, V)."""
        answer = batch["labels"], logits, batch["label_weights"]
        return {"seq2seq": smoothed_cross_entropy(*answer, self.label_smoothing)}, {
            "negative_log_likelihood": weighted_cross_entropy(*answer),
            "seq2seq_accuracy": weighted_accuracy(*answer),
        }

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(self.logits(outputs["sequence_output"], backbone), axis=-1)}

    def logits(self, states, backbone):
        """(..., D) -> float32 (..., V)"""
        return backbone.logits(states)
