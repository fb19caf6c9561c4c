"""A stochastic answer network: compares two texts in several steps and averages their predictions (Liu, Duh and Gao, 2018,
arXiv 1804.07888; Liu et al., 2019, arXiv 1901.11504, section 3)."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout, random_integers
from xmodels.layers.initialization import truncated_normal
from xmodels.layers.layer import Layer

HIDDEN = -1e9  # replaces the scores that are masked out
BITS = 16  # of a random integer


class StochasticAnswerNetwork(Layer):
    """Attends to the premise in `num_steps` steps with a state that starts as a summary of the hypothesis; each step predicts.

    Where the paper is unclear this follows the released code (namisan/mt-dnn, `module/san.py`): a step predicts before the state
    is updated, so the last update is not computed. Everything is float32.

    Args:
        hidden_dim: D.
        num_classes: C.
        num_steps: K, the number of predictions that are averaged; 5 in the paper.
        dropout: rate before the classifier, on the state and in both attentions. In a text all positions share one mask.
        step_dropout: the rate at which training drops steps from the average.
        stddev: of the initial kernels.

    Call arguments:
        hypothesis, premise: (B, L, D), the states of tokens, in any layout.
        hypothesis_mask, premise_mask: bool (B, L), True on the positions that belong to the text.

    Returns:
        float32 (B, C), the log of the averaged probabilities of the steps. If steps are dropped, the probabilities do not sum
        to 1; a cross-entropy that takes the result for logits renormalises it, as in the released code.
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
        return log_mean(ops.log_softmax(logits, axis=-1), self.draw_kept_steps(ops.shape(logits)[0], training))

    def step_logits(self, hypothesis, hypothesis_mask, premise, premise_mask, training=None):
        """Returns the logits of each step, (B, K, C)."""
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
        """Returns the mean of the states of a text, weighted by a softmax of linear scores: (B, D)."""
        x = self._drop_alike(x, training)
        return weighted_mean(ops.squeeze(self.summary(x), -1), x, mask)

    def attend(self, state, x, mask, training=None):
        """Returns the mean of the states of a text, weighted by a softmax of bilinear scores with `state` (B, D): (B, D).

        Dropping the same dimensions at all positions of x gives the same scores as dropping them from the query.
        """
        query = self.attention(self.dropout(state, training=training))
        query = self.dropout(query, training=training)  # (B, D)
        return weighted_mean(ops.einsum("bld,bd->bl", x, query), x, mask)

    def draw_kept_steps(self, batch_size, training=None):
        """Draws the steps that are averaged, bool (B, K): each with probability 1 - `step_dropout`, and a random one of each
        example always."""
        if not training or not self.step_dropout:
            return ops.ones((batch_size, self.num_steps), "bool")
        draws = ops.cast(random_integers((batch_size, self.num_steps + 1), BITS), "int32") + 2 ** (BITS - 1)  # from 0
        certain = draws[:, :1] * self.num_steps // 2**BITS  # (B, 1)
        kept = draws[:, 1:] >= round(self.step_dropout * 2**BITS)
        return ops.logical_or(kept, ops.equal(ops.arange(self.num_steps, dtype="int32"), certain))

    def _drop_alike(self, x, training):
        """Drops the same dimensions at all positions of x (B, L, D)."""
        if not training or not self.dropout.rate:
            return x
        return x * self.dropout(ops.ones((ops.shape(x)[0], 1, ops.shape(x)[2])), training=True)


def weighted_mean(scores, x, mask):
    """Returns the mean of x (B, L, D), weighted by a softmax of scores (B, L) over the positions of the mask: (B, D). It is
    finite even if the mask is all False."""
    weights = ops.softmax(ops.where(ops.cast(mask, "bool"), scores, HIDDEN), axis=-1)
    return ops.einsum("bl,bld->bd", weights, x)


def log_mean(log_probabilities, kept):
    """Returns the log of the sum of the probabilities of the kept steps divided by K: (B, K, C), bool (B, K) -> (B, C).

    The released code also divides by the expected share of kept steps, which has no effect once the result is renormalised.
    """
    shown = ops.where(ops.expand_dims(kept, -1), log_probabilities, HIDDEN)
    return ops.logsumexp(shown, axis=1) - ops.log(ops.cast(log_probabilities.shape[1], "float32"))
