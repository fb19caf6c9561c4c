"""The base of tasks on sets of vectors: a head on what a network pools a set to."""

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.dropout import Dropout
from xmodels.tasks.base.task import Task

SET = {"points": Feature((None, None), "float32"), "padding_mask": Feature((None,), "bool")}


class SetTask(Task):
    """A Dense layer on the vector that a network pools a set to."""

    names_labels = False

    def add_head(self, config, num_outputs: int) -> None:
        """Creates the layers of the head. Call it once."""
        self.dropout = Dropout(config.dropout)
        self.head = keras.layers.Dense(num_outputs, name="head")

    def forward(self, backbone, batch, training=None):
        outputs = backbone(batch, training=training)
        state = self.dropout(outputs["pooled_output"], training=training)  # (B, K D)
        return {**outputs, "logits": ops.cast(self.head(state), "float32")}  # (B, C)
