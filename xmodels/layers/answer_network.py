"""A stochastic answer network: reads two texts against each other several times before it answers (Liu, Duh and Gao, 2018,
arXiv 1804.07888; Liu et al., 2019, arXiv 1901.11504, section 3)."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout, random_integers
from xmodels.layers.initialization import truncated_normal
from xmodels.layers.layer import Layer

HIDDEN = -1e9  # what stands for a score that is not to be taken
BITS = 16  # of a draw


class StochasticAnswerNetwork(Layer):
    """Attends `num_steps` times to the premise with a state that begins as a summary of the hypothesis, and predicts each time.

    The released code (namisan/mt-dnn, `module/san.py`) decides where the paper is unclear: a step predicts before the state is
    updated, so the last update is not needed and not computed. All of it is float32.

    Args:
        hidden_dim: D.
        num_classes: C.
        num_steps: K, predictions that are averaged; 5 in the paper.
        dropout: before the prediction, on the state and in both attentions. On the rows of a text all positions share a mask.
        step_dropout: the share of the steps that training leaves out of the average.
        stddev: of initial kernels.

    Call arguments:
        hypothesis, premise: (B, L, D), rows of any layout.
        hypothesis_mask, premise_mask: bool (B, L), True on the rows that belong to the text.

    Returns:
        float32 (B, C), the logarithm of the average of the probabilities of the steps. Where steps were left out its exponentials do
        not add up to 1; a cross-entropy that takes it for logits renormalises it, as the released code does.
    """

    def __init__(self, hidden_dim, num_classes, num_steps=5, dropout=0.1, step_dropout=0.1, stddev=0.02, **kwargs):
        super().__init__(dtype="float32", **kwargs)
        self.num_steps, self.step_dropout = num_steps, step_dropout
        self.dropout = Dropout(dropout, dtype="float32")
        self.summary = self._dense(1, stddev, "summary")
        self.attention = self._dense(hidden_dim, stddev, "attention")
        self.cell = keras.layers.GRUCell(
            hidden_dim, reset_after=True, kernel_initializer=truncated_normal(stddev),
            recurrent_initializer=truncated_normal(stddev), dtype="float32", name="cell",
        )  # fmt: skip
        self.classifier = self._dense(num_classes, stddev, "classifier")

    def _dense(self, units, stddev, name):
        return keras.layers.Dense(units, kernel_initializer=truncated_normal(stddev), dtype="float32", name=name)

    def call(self, hypothesis, hypothesis_mask, premise, premise_mask, training=None):
        logits = self.step_logits(hypothesis, hypothesis_mask, premise, premise_mask, training)  # (B, K, C)
        return log_mean(ops.log_softmax(logits, axis=-1), self.kept_steps(ops.shape(logits)[0], training))

    def step_logits(self, hypothesis, hypothesis_mask, premise, premise_mask, training=None):
        """What each step predicts: (B, K, C)."""
        hypothesis, premise = ops.cast(hypothesis, "float32"), ops.cast(premise, "float32")
        state, found = self.summarize(hypothesis, hypothesis_mask, training), []  # (B, D)
        for step in range(self.num_steps):
            read = self.attend(state, premise, premise_mask, training)  # (B, D)
            both = ops.concatenate([read, state, ops.abs(read - state), read * state], axis=-1)  # (B, 4 D)
            found.append(self.classifier(self.dropout(both, training=training)))
            if step + 1 < self.num_steps:
                state = self.cell(read, self.dropout(state, training=training))[0]
        return ops.stack(found, axis=1)

    def summarize(self, x, mask, training=None):
        """The mean of the rows of a text, weighted by a linear score: (B, D)."""
        x = self._drop_alike(x, training)
        return weighted_rows(ops.squeeze(self.summary(x), -1), x, mask)

    def attend(self, state, x, mask, training=None):
        """The mean of the rows of a text, weighted by a bilinear score with the state: (B, D)."""
        query = self.attention(self.dropout(state, training=training))  # (B, D)
        return weighted_rows(ops.einsum("bld,bd->bl", self._drop_alike(x, training), query), x, mask)

    def kept_steps(self, batch_size, training=None):
        """Which steps count, bool (B, K): each with a probability of 1 - `step_dropout`, and one for certain, drawn anew for each
        example."""
        if not training or not self.step_dropout:
            return ops.ones((batch_size, self.num_steps), "bool")
        draws = ops.cast(random_integers((batch_size, self.num_steps + 1), BITS), "int32") + 2 ** (BITS - 1)  # from 0
        certain = draws[:, :1] * self.num_steps // 2**BITS  # (B, 1)
        kept = draws[:, 1:] >= round(self.step_dropout * 2**BITS)
        return ops.logical_or(kept, ops.equal(ops.arange(self.num_steps, dtype="int32"), certain))

    def _drop_alike(self, x, training):
        """Dropout of the same dimensions at all positions (B, L, D)."""
        if not training or not self.dropout.rate:
            return x
        return x * self.dropout(ops.ones((ops.shape(x)[0], 1, ops.shape(x)[2])), training=True)


def weighted_rows(scores, x, mask):
    """The rows (B, L, D) weighted by a softmax of scores (B, L) over those of the mask: (B, D). A text without rows gets finite
    numbers."""
    weights = ops.softmax(ops.where(ops.cast(mask, "bool"), scores, HIDDEN), axis=-1)
    return ops.einsum("bl,bld->bd", weights, x)


def log_mean(log_probabilities, kept):
    """The logarithm of the mean over all K steps of the probabilities of those that are kept: (B, K, C), bool (B, K) -> (B, C).

    The released code also divides by the share of steps that are kept on average, which renormalising cancels.
    """
    shown = ops.where(ops.expand_dims(kept, -1), log_probabilities, HIDDEN)
    return ops.logsumexp(shown, axis=1) - ops.log(ops.cast(log_probabilities.shape[1], "float32"))
