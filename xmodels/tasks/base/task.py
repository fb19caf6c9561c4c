"""A task is an objective that also predicts. `task.py` of a task defines one; it is model code, so it uses `keras.ops` only."""

from collections.abc import Sequence
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.features import Features
from xmodels.interfaces.reading import Reading
from xmodels.layers.dropout import Dropout
from xmodels.layers.poolings import PUBLISHED
from xmodels.objectives.base import Objective
from xmodels.objectives.measures import weighted_accuracy, weighted_cross_entropy
from xmodels.tasks.base.label_trees import make_tree


class Task(Objective):
    """An objective with `predict` and the signature of its predictions.

    Subclasses take (config, labels, reading): the configuration of the backbone, the names of the labels in the order of
    their ids, and the `Reading` of texts if they need one.
    """

    title: ClassVar[str]  # of the model card
    signature: ClassVar[Features] = {}
    orders: ClassVar[Sequence[tuple[int, int]] | None] = None  # in which texts are read; None: once, as they stand
    names_labels: ClassVar[bool] = True  # whether its predictions are labels with names
    reads_states: ClassVar[bool] = False  # whether its head reads the states of all tokens, which every network has

    @property
    def needs(self) -> Features:
        """The same as `reads`, since the examples contain the labels too."""
        return self.reads

    def predict(self, outputs):
        """Returns the predictions from the result of `forward`: a dictionary of tensors, named as in `signature`."""
        raise TypeError(f"{type(self).__name__} must define `predict`.")


class SummaryTask(Task):
    """A task whose head reads one state per text: dropout and a Dense layer; for some systems after another one with tanh, which
    may have a dropout of its own before it.

    The state is `reading.summary(outputs, batch)`: that of the system's paper, or a pooling of all states (`reading.pooling`). Heads
    that are networks of their own (`reading.make_network`) make it of the states of all tokens.
    """

    network = None

    @property
    def pooling(self) -> str | None:
        """The pooling that is stored in a model folder; None for that of the system's paper."""
        return None if self.reading.pooling == PUBLISHED else self.reading.pooling

    def add_head(
        self,
        config,
        num_outputs: int,
        reading: Reading,
        label_counts: Sequence[int] | None = None,
        start: float = 0.0,
    ) -> None:
        """Creates the layers of the head. Call it once.

        Args:
            label_counts: how often each label occurs, for a head that decides by a Huffman tree; None for a softmax.
            start: the initial bias of all outputs.
        """
        self.network = reading.network(config)  # its weights are saved with those of the head, too
        self.reading, pooling = reading.build_pooling(config)
        if pooling is not None:
            self.attention_pooling = pooling  # its weights are saved with those of the head
        self.reading, mix = self.reading.build_layer_mix()
        if mix is not None:
            self.layer_mix = mix  # likewise
        self.dense = reading.dense(config)
        given = {"use_bias": reading.has_bias, "kernel_initializer": reading.initializer(config), "name": "head"}
        given["bias_initializer"] = keras.initializers.Constant(start)
        self.head = make_tree(label_counts, **given) if label_counts else keras.layers.Dense(num_outputs, **given)
        self.dropout = Dropout(reading.dropout_rate(config))

    def summarized(self, backbone, batch, training=None):
        """Returns the outputs of the network for sequences (B, L), and the state that the head reads, (B, D).

        Tasks call the network only through their `reading`, which may call only the encoder of an encoder-decoder.
        """
        outputs = self.reading.outputs(backbone, batch, training)
        return outputs, self.summary(outputs, batch, training)

    def summary(self, outputs, batch, training=None):
        """Returns the state that the head reads, (B, D)."""
        if self.network is not None:
            texts = {"segment_ids": batch["segment_ids"]} if getattr(self.network, "tells_texts", False) else {}
            return self.network(outputs["sequence_output"], batch["padding_mask"], training=training, **texts)
        return self.reading.summary(outputs, batch)

    def logits_of(self, state, training=None):
        """Returns the logits of the head: (B, D) -> float32 (B, num_outputs)."""
        hidden = self.dropout(state, training=training) if self.reading.drops_state else state
        if self.dense is not None:
            hidden = self.dropout(self.dense(hidden), training=training)
        return ops.cast(self.head(hidden), "float32")


def score_labels(logits, batch, class_weights=None):
    """Returns cross-entropy and accuracy of labels, (sum, weight) each.

    Args:
        logits: (B, C).
        batch: holds `labels` and `example_weights`, (B,).
        class_weights: what an example of each class counts in the loss; None for all the same.
    """
    labels, weights = batch["labels"], batch["example_weights"]
    shares = weights
    if class_weights is not None:
        shares = ops.cast(weights, "float32") * ops.take(ops.convert_to_tensor(class_weights, "float32"), labels)
    return weighted_cross_entropy(labels, logits, shares), weighted_accuracy(labels, logits, weights)
