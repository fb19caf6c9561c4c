"""Label a pair of texts that has no order: both orders are read, and their states are added (Radford et al., 2018, section 3.3)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.tasks.base.sequences import rows, split_sequences
from xmodels.tasks.classify.task import Classify


class Similarity(Classify):
    """`Classify` on the sum of the states that answer to A and B, and to B and A. `token_ids` are (B, 2, L)."""

    title = "Classifier of pairs, read in both orders"
    orders = ((0, 1), (1, 0))
    reads = {"token_ids": Feature((2, None)), "labels": Feature(())}

    def forward(self, backbone, batch, training=None):
        sequences = rows(batch)
        outputs, state = self.summarized(backbone, sequences, training)
        states = split_sequences(state, len(self.orders))  # (B, 2, D)
        return {**outputs, "logits": self.logits_of(ops.sum(states, axis=1), training)}  # (B, C)
