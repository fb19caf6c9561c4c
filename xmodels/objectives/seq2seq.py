"""Sequence to sequence: predict each target token from the source and the target before it (Vaswani et al., 2017)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import OTHERS, score_smoothed


class Seq2Seq(Objective):
    """Label-smoothed cross-entropy of the target. The backbone computes the logits with its method `logits`.

    The frame of the records writes `target_ids` (the inputs of the decoder), `labels` and `label_weights`, (B, T) each.

    Args:
        label_smoothing: the probability that is spread over the tokens other than the label (section 5.4). The metric
            `negative_log_likelihood`, whose exponential is the perplexity, is computed without smoothing.
        smoothing_over: "others", or "all" to spread it over all tokens, the label among them.
        corrupt: an op that makes source and target out of a text. None if the records hold pairs.
    """

    reads = {"token_ids": Feature((None,))}
    needs = {"labels": Feature((None,)), "label_weights": Feature((None,), "float32")}
    context, accuracy = "before", "seq2seq_accuracy"

    def __init__(self, label_smoothing: float = 0.1, corrupt=None, smoothing_over: str = OTHERS, **kwargs):
        super().__init__(**kwargs)
        self.label_smoothing, self.smoothing_over, self.corrupt = label_smoothing, smoothing_over, corrupt

    def transform(self):
        return self.corrupt or super().transform()

    def score(self, outputs, batch, backbone):
        return self.score_logits(batch, self.logits(outputs["sequence_output"], backbone))

    def score_logits(self, batch, logits):
        """Returns the losses and metrics, as `score` does, of logits float32 (B, T, V)."""
        answer = batch["labels"], logits, batch["label_weights"]
        loss, plain, accuracy = score_smoothed(*answer, self.label_smoothing, over=self.smoothing_over)
        return {"seq2seq": loss}, {"negative_log_likelihood": plain, "seq2seq_accuracy": accuracy}

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(self.logits(outputs["sequence_output"], backbone), axis=-1)}

    def logits(self, states, backbone):
        """Returns the logits of the backbone: (..., D) -> float32 (..., V)."""
        return backbone.logits(states)
