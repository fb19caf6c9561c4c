"""Classify a pair of texts with several steps of attention between them: a stochastic answer network (Liu et al., 2019)."""

from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.answer_network import StochasticAnswerNetwork
from xmodels.tasks.classify.task import Classify

NUM_STEPS = 5  # of the paper


class San(Classify):
    """The first text of a pair is the hypothesis, the second the premise, as in the released code of MT-DNN.

    A text is its tokens with the special tokens of its segment: `[CLS] hypothesis [SEP]` and `premise [SEP]`. The loss takes the
    logarithm of the average of the steps for logits.

    Args:
        config, labels, reading, class_weights: as of `Classify`; of `reading` only how texts are framed and states are had.
    """

    title = "Classifier of pairs that reads one text against the other several times"
    reads = {"token_ids": Feature((None,)), "segment_ids": Feature((None,)), "labels": Feature(())}
    reads_states = True

    def add_head(self, config, num_outputs, reading):
        self.reading = reading
        stddev, rate = getattr(config, "initializer_stddev", 0.02), reading.dropout_rate(config)
        self.head = StochasticAnswerNetwork(config.hidden_dim, num_outputs, NUM_STEPS, rate, stddev=stddev)

    @property
    def dropout(self):
        return self.head.dropout

    def forward(self, backbone, batch, training=None):
        outputs = self.reading.states(backbone, batch, training)
        return {**outputs, "logits": self.answer(outputs, batch, training)}

    def answer(self, outputs, batch, training=None):
        states, real = outputs["sequence_output"], ops.cast(batch["padding_mask"], "bool")
        hypothesis, premise = (ops.logical_and(real, ops.equal(batch["segment_ids"], segment)) for segment in (0, 1))
        return self.head(states, hypothesis, states, premise, training=training)
