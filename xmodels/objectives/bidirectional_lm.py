"""Two language models, one for each direction, that share their words and their softmax (Peters et al., 2018, section 3.1)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.sampled_softmax import SampledSoftmax, log_uniform_sample
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import score_classes

NUM_SAMPLED = 8192  # of bilm-tf


class BidirectionalLM(Objective):
    """Predicts the next word of a stream of sentences, and that of a second stream in which each sentence stands backwards.

    The loss is the mean of both. Training compares each word with a sample of the vocabulary, whose words must stand in the order of
    their counts; evaluation compares it with all words.

    Args:
        config: of the network, with `output_dim`, the width of a direction.
        num_sampled: words that are drawn for each batch. At least as many as there are words: training compares with all.
    """

    reads = {name: Feature((None,)) for name in ("token_ids", "labels", "reversed_labels")}
    needs = {**reads, "label_weights": Feature((None,), "float32")}  # reports read the tokens
    context, accuracy = "before", "bidirectional_lm_accuracy"
    sparse_tables = ("head.table",)

    def __init__(self, config, num_sampled: int = NUM_SAMPLED, **kwargs):
        super().__init__(**kwargs)
        self.num_sampled = num_sampled if num_sampled < config.vocabulary_size else None
        self.head = SampledSoftmax(config.vocabulary_size, config.output_dim, name="head")

    def forward(self, backbone, batch, training=None):
        outputs = backbone(batch, training=training)
        if training and self.num_sampled:
            outputs["sampled_ids"] = log_uniform_sample(self.head.table.shape[0], self.num_sampled)  # (S,)
        return outputs

    def score(self, outputs, batch, backbone):
        ahead, behind = ops.split(outputs["sequence_output"], 2, axis=-1)  # (B, L, P) each
        states = ops.concatenate([ahead, behind], axis=0)  # (2 B, L, P)
        labels = ops.concatenate([batch["labels"], batch["reversed_labels"]], axis=0)
        weights = ops.concatenate([batch["label_weights"]] * 2, axis=0)
        if "sampled_ids" in outputs:
            states = ops.reshape(states, (-1, states.shape[-1]))  # (N, P)
            logits = self.head.sampled_logits(states, ops.reshape(labels, (-1,)), outputs["sampled_ids"])
            weights = ops.reshape(weights, (-1,))
            labels = ops.zeros_like(weights, dtype="int32")  # the label is the first
        else:
            logits = self.head.logits(states)  # (2 B, L, V)
        answer = labels, logits, weights
        loss, accuracy = score_classes(*answer)
        return {"bidirectional_lm": loss}, {"bidirectional_lm_accuracy": accuracy}

    def predictions(self, outputs, batch, backbone):
        ahead, behind = ops.split(outputs["sequence_output"], 2, axis=-1)
        return {
            "labels": ops.argmax(self.head.logits(ahead), axis=-1),
            "reversed_labels": ops.argmax(self.head.logits(behind), axis=-1),
        }
