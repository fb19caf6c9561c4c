"""Causal language modelling: predict each token from those before it (Radford et al., 2018, equation 1)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.heads import tied_logits
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import score_classes


class CausalLM(Objective):
    """Predicts the next token from the state at each position. The logits are tied to the token embedding, without a bias.

    The frame of the records writes `labels` and `label_weights`, (B, L) each: the next token, and 1 where there is one.
    """

    reads = {"token_ids": Feature((None,))}
    needs = {"labels": Feature((None,)), "label_weights": Feature((None,), "float32")}
    context, accuracy = "before", "causal_lm_accuracy"

    def score(self, outputs, batch, backbone):
        logits = self.logits(outputs["sequence_output"], backbone)  # (B, L, V)
        answer = batch["labels"], logits, batch["label_weights"]
        loss, accuracy = score_classes(*answer)
        return {"causal_lm": loss}, {"causal_lm_accuracy": accuracy}

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(self.logits(outputs["sequence_output"], backbone), axis=-1)}

    def logits(self, states, backbone):
        """Returns the logits of the next token: (..., D) -> float32 (..., V)."""
        return tied_logits(states, backbone.embedding.token)
