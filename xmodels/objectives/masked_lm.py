"""Masked language modelling (Devlin et al., 2018, section 3.1, task 1)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.heads import MaskedLMHead
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import score_classes


class MaskedLM(Objective):
    """Masks tokens and predicts them. Plain, whole-word and static masking differ only in `corrupt`.

    Args:
        corrupt: an op that writes `mask_positions`, `labels` and `label_weights`, (B, P) each. None if the records hold
            them already (static masking).
        initialization: of the head; by default BERT's.
        use_bias: whether the layers of the head below its output have biases.
    """

    reads = {"token_ids": Feature((None,))}
    needs = {
        "mask_positions": Feature((None,)),
        "labels": Feature((None,)),
        "label_weights": Feature((None,), "float32"),
    }
    context, accuracy = "both", "masked_lm_accuracy"

    def __init__(self, config, corrupt=None, initialization=None, use_bias: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.corrupt = corrupt
        self.head = MaskedLMHead(config, initialization, use_bias, name="head")

    def transform(self):
        return self.corrupt or super().transform()

    def logits(self, outputs, batch, backbone):
        """Returns the logits at the masked positions, float32 (B, P, V)."""
        hidden, table = outputs["sequence_output"], backbone.embedding.token
        return self.head(hidden, batch["mask_positions"], token_embedding=table)

    def score(self, outputs, batch, backbone):
        answer = batch["labels"], self.logits(outputs, batch, backbone), batch["label_weights"]
        loss, accuracy = score_classes(*answer)
        return {"masked_lm": loss}, {"masked_lm_accuracy": accuracy}

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(self.logits(outputs, batch, backbone), axis=-1)}
