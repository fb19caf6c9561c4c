"""A task is an objective that also has an answer. `task.py` of a task defines one; it is model code, so it says `keras.ops` only."""

from typing import ClassVar

import keras
from keras import ops

from data_pipelines.features import Features
from xmodels.interfaces.reading import Reading
from xmodels.layers.dropout import Dropout
from xmodels.layers.poolings import PUBLISHED
from xmodels.objectives.base import Objective


class Task(Objective):
    """An objective with `predict` and the signature of its answer.

    Subclasses take (config, labels, reading): the configuration of the backbone, the names of the labels in the order of
    their ids, and how the network reads texts, None where it reads none.
    """

    title: ClassVar[str]  # of the model card
    signature: ClassVar[Features] = {}
    names_labels: ClassVar[bool] = True  # whether its answers are labels that have names
    reads_states: ClassVar[bool] = False  # whether it reads the states of all tokens, which every network has

    @property
    def needs(self) -> Features:
        """The labels too stand in the examples, so what it reads is all that it needs."""
        return self.reads

    def predict(self, outputs):
        """What the outputs of the backbone mean: a dictionary of tensors, named as in `signature`."""
        raise TypeError(f"{type(self).__name__} must define `predict`.")


class SummaryTask(Task):
    """A task that the state answers which stands for all of a text: dropout and a Dense layer, before which systems whose heads
    have two have another with tanh, and dropout.

    That state is `reading.summary(outputs, batch)`: the one of the paper, or what `reading.pooling` makes of all states.
    """

    @property
    def pooling(self) -> str | None:
        """What a model folder says of the readout; None for the one of the paper."""
        return None if self.reading.pooling == PUBLISHED else self.reading.pooling

    def add_head(self, config, num_outputs: int, reading: Reading) -> None:
        """Makes the layers; called once."""
        self.reading, pooling = reading.summarized_by(config)
        if pooling is not None:
            self.attention_pooling = pooling  # its weights stand beside those of the head
        self.dense = reading.dense(config)
        self.head = keras.layers.Dense(num_outputs, kernel_initializer=reading.initializer(config), name="head")
        self.dropout = Dropout(reading.dropout_rate(config))

    def summarized(self, backbone, batch, training=None):
        """What the network gives for sequences (B, L), and the state that answers about each, (B, D).

        Tasks call the network by their `reading` only, as of an encoder-decoder that may be the encoder alone.
        """
        outputs = self.reading.outputs(backbone, batch, training)
        return outputs, self.reading.summary(outputs, batch)

    def logits_of(self, state, training=None):
        """(B, D) -> float32 (B, outputs)"""
        hidden = self.dropout(state, training=training)
        if self.dense is not None:
            hidden = self.dropout(self.dense(hidden), training=training)
        return ops.cast(self.head(hidden), "float32")
