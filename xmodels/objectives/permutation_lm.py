"""Permutation language modelling with two streams (Yang et al., 2019, arXiv 1906.08237, sections 2.2 and 2.3)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.heads import vocabulary_logits
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import score_classes


class PermutationLM(Objective):
    """Predicts each target from its position, the context, and the targets before it in a random factorisation order.

    The output matrix is the token embedding, with a bias of its own.

    Args:
        permute: an op that writes `mask_positions`, `labels` and `label_weights`, (B, P) each, `query_mask` bool (B, P, L)
            and `content_mask` bool (B, L, L), as `data_pipelines.ops.permutation` does. None if the features hold them already.
    """

    reads = {"token_ids": Feature((None,))}
    needs = {
        "mask_positions": Feature((None,)),
        "labels": Feature((None,)),
        "label_weights": Feature((None,), "float32"),
        "query_mask": Feature((None, None), "bool"),
        "content_mask": Feature((None, None), "bool"),
    }
    context, accuracy = "both", "permutation_lm_accuracy"

    classes = {"is_reversed": ("reads", ("forwards", "backwards"))}

    def __init__(self, config, permute=None, **kwargs):
        super().__init__(**kwargs)
        self.permute = permute
        self.bias = self.add_weight(shape=(config.vocabulary_size,), initializer="zeros", name="bias")

    def transform(self):
        return self.permute or super().transform()

    def logits(self, outputs, backbone):
        """Returns the logits of each target, float32 (B, P, V)."""
        return vocabulary_logits(outputs["query_output"], backbone.embedding.token, self.bias)

    def score(self, outputs, batch, backbone):
        answer = batch["labels"], self.logits(outputs, backbone), batch["label_weights"]
        loss, accuracy = score_classes(*answer)
        return {"permutation_lm": loss}, {"permutation_lm_accuracy": accuracy}

    def predictions(self, outputs, batch, backbone):
        return {"labels": ops.argmax(self.logits(outputs, backbone), axis=-1)}

    def target_visibility(self, batch):
        return {"target_visibility": batch["query_mask"]}
