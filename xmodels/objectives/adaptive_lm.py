"""Causal language modelling with an adaptive softmax (Dai et al., 2019)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers import initialization as initializations
from xmodels.layers.adaptive import AdaptiveSoftmax
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import score_classes


class AdaptiveLM(Objective):
    """Predicts the next token from each state with an `AdaptiveSoftmax`.

    The frame of the records writes `labels` and `label_weights`, (B, L) each. The loss is in nats per token: divided by ln 2 it
    is in bits, and its exponential is the perplexity.
    """

    reads = {"token_ids": Feature((None,))}
    needs = {"labels": Feature((None,)), "label_weights": Feature((None,), "float32")}
    context, accuracy = "before", "adaptive_lm_accuracy"

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        kernels = initializations.gpt(config.initializer_stddev)
        self.head = AdaptiveSoftmax(config, kernels, initializations.gpt(0.01), name="head")

    def score(self, outputs, batch, backbone):
        states = ops.convert_to_tensor(outputs["sequence_output"])
        answer = batch["labels"], self.head.logits(states, backbone.embedding), batch["label_weights"]
        loss, accuracy = score_classes(*answer)
        return {"adaptive_lm": loss}, {"adaptive_lm_accuracy": accuracy}

    def logits(self, states, backbone):
        """Returns log-probabilities: (..., D) -> float32 (..., V)."""
        return self.head.log_probabilities(ops.convert_to_tensor(states), backbone.embedding)
