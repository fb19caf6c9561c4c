"""The position-wise feed-forward network (Vaswani et al., 2017, section 3.3)."""

import keras
from keras import ops

from xmodels.layers.activations import activation
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import Initialization
from xmodels.layers.layer import Layer


class FeedForward(Layer):
    """(B, L, D) -> (B, L, F) -> activation -> (B, L, D). `dropout` is that of the inner layer; BERT has none."""

    def __init__(
        self, hidden_dim: int, intermediate_dim: int, activation_name: str,
        initialization: Initialization | None = None, dropout: float = 0.0, **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        initialization = initialization or Initialization()
        self.expand = keras.layers.Dense(intermediate_dim, kernel_initializer=initialization.inner(), name="expand")
        self.contract = keras.layers.Dense(hidden_dim, kernel_initializer=initialization.residual(), name="contract")
        self.activation = activation(activation_name)
        self.dropout = Dropout(dropout)

    def call(self, x, training=None):
        rows = ops.reshape(x, (-1, x.shape[-1]))  # of two axes, a product and its bias are one kernel in TensorFlow
        rows = self.contract(self.dropout(self.activation(self.expand(rows)), training=training))
        return ops.reshape(rows, (*ops.shape(x)[:-1], rows.shape[-1]))
