"""Language modelling on the texts of a task: beside it (Radford et al., 2018, equation 5), or before it (Howard and Ruder, 2018)."""

import keras
from keras import ops

from xmodels.objectives.base import Objective
from xmodels.tasks.base.sequences import row_weights, rows
from xmodels.tasks.base.task import Task
from xmodels.training.finetuning import LANGUAGE_MODEL


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
        losses, real = token_losses(self.language_model, outputs, batch, backbone)  # (R, L - 1) each
        weights = row_weights(batch)  # (R,)
        if self.over_tokens:
            shares = real * ops.expand_dims(weights, 1)
            return ops.sum(losses * shares), ops.sum(shares)
        means = ops.sum(losses * real, axis=-1) / ops.maximum(ops.sum(real, axis=-1), 1.0)  # (R,)
        return ops.sum(means * weights), ops.sum(weights)


class LanguageModelOfTexts(Objective):
    """The language model alone, on the texts of a task: the mean loss of all their tokens but the first.

    Args:
        task: says what is read, and how; its head learns nothing.
        language_model: has `logits`, as for `WithLanguageModel`.
    """

    def __init__(self, task: Task, language_model: Objective, **kwargs):
        super().__init__(**kwargs)
        self._read = (
            task.transform,
            task.reads,
            task.reading,
        )  # not the task, whose weights would be among those that learn
        self.language_model = language_model

    @property
    def reads(self):
        return self._read[1]

    @property
    def needs(self):
        return {name: feature for name, feature in self.reads.items() if name != "labels"}

    def transform(self):
        return self._read[0]()

    def forward(self, backbone, batch, training=None):
        return self._read[2].outputs(backbone, rows(batch), training)

    def score(self, outputs, batch, backbone):
        losses, real = token_losses(self.language_model, outputs, batch, backbone)
        shares = real * ops.expand_dims(row_weights(batch), 1)
        return {LANGUAGE_MODEL: (ops.sum(losses * shares), ops.sum(shares))}, {}


def token_losses(language_model: Objective, outputs, batch, backbone):
    """Returns the losses of all tokens but the first, and 1.0 where they are real, float32 (R, L - 1) each."""
    sequences = rows(batch)  # (R, L) each
    real = ops.cast(sequences["padding_mask"][:, 1:], "float32")  # (R, L - 1)
    logits = language_model.logits(outputs["sequence_output"][:, :-1], backbone)  # (R, L - 1, V)
    return keras.losses.sparse_categorical_crossentropy(sequences["token_ids"][:, 1:], logits, from_logits=True), real
