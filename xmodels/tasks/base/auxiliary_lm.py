"""Fine-tuning with language modelling as an auxiliary objective (Radford et al., 2018, equation 5)."""

import keras
from keras import ops

from xmodels.objectives.base import Objective
from xmodels.tasks.base.sequences import row_weights, rows
from xmodels.tasks.base.task import Task


class WithLanguageModel(Objective):
    """The loss of a task beside that of predicting each token from those before it, including special tokens.

    `LossWeights` say what the second loss, `auxiliary_lm`, counts. Its head is not handed over with the network.

    Args:
        task: the task.
        language_model: has `logits`, such as the objective of the pretraining; its head goes on learning.
        over_tokens: whether the second loss is a mean over all tokens of a batch (Chronopoulou et al., 2019), or over the tokens of
            each sequence and then over sequences, so that short ones count as much as long ones (openai/finetune-transformer-lm).
    """

    def __init__(self, task: Task, language_model: Objective, over_tokens: bool = False, **kwargs):
        super().__init__(**kwargs)
        setattr(self, task.label, task)  # so that its weights have the same names as without this
        self._task, self.over_tokens = task, over_tokens
        self.language_model = language_model

    @property
    def prefix(self):
        return "objective"

    @property
    def reads(self):
        return self._task.reads

    @property
    def needs(self):
        return self._task.needs

    @property
    def label_names(self):
        return getattr(self._task, "label_names", None)

    def transform(self):
        return self._task.transform()

    def forward(self, backbone, batch, training=None):
        return self._task.forward(backbone, batch, training=training)

    def predictions(self, outputs, batch, backbone):
        return self._task.predictions(outputs, batch, backbone)

    def score(self, outputs, batch, backbone):
        losses, metrics = self._task.score(outputs, batch, backbone)
        total, weight = self.modelling(outputs, batch, backbone)
        return losses | {"auxiliary_lm": (total, weight)}, metrics

    def modelling(self, outputs, batch, backbone):
        """Returns (sum of the losses of tokens, or of the mean losses of sequences; sum of their weights), scalars."""
        sequences, weights = rows(batch), row_weights(batch)  # (R, L) each, (R,)
        real = ops.cast(sequences["padding_mask"][:, 1:], "float32")  # (R, L - 1)
        logits = self.language_model.logits(outputs["sequence_output"][:, :-1], backbone)  # (R, L - 1, V)
        losses = keras.losses.sparse_categorical_crossentropy(sequences["token_ids"][:, 1:], logits, from_logits=True)
        if self.over_tokens:
            shares = real * ops.expand_dims(weights, 1)
            return ops.sum(losses * shares), ops.sum(shares)
        means = ops.sum(losses * real, axis=-1) / ops.maximum(ops.sum(real, axis=-1), 1.0)  # (R,)
        return ops.sum(means * weights), ops.sum(weights)
