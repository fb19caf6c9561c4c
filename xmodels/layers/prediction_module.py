"""A small network that predicts classes from states of words (Clark et al., 2018, arXiv 1809.08370, section 3.1)."""

import keras
from keras import ops

from xmodels.layers.initialization import GlorotUniform
from xmodels.layers.layer import Layer


class PredictionModule(Layer):
    """A hidden layer and an output layer: (..., D) -> float32 (..., C).

    A sum of a Dense layer for each of several inputs, as in the released code, is one Dense layer on the inputs side by side.

    Args:
        hidden_dim: units of the hidden layer.
        num_classes: C.
        is_linear: whether the hidden layer has no ReLU, as that of the released code's module that sees all.
    """

    def __init__(self, hidden_dim: int, num_classes: int, is_linear: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.hidden = keras.layers.Dense(
            hidden_dim, None if is_linear else "relu", kernel_initializer=GlorotUniform(), name="hidden"
        )
        self.output_layer = keras.layers.Dense(num_classes, kernel_initializer=GlorotUniform(), name="output")

    def call(self, x):
        return ops.cast(self.output_layer(self.hidden(x)), "float32")
