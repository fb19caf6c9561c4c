"""The position-wise feed-forward network (Vaswani et al., 2017, section 3.3)."""

import keras

from xmodels.layers.activations import activation
from xmodels.layers.initialization import Initialization


class FeedForward(keras.layers.Layer):
    """(B, L, D) -> (B, L, F) -> activation -> (B, L, D). No dropout between the two, as in BERT."""

    def __init__(
        self, hidden_dim: int, intermediate_dim: int, activation_name: str,
        initialization: Initialization | None = None, **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        initialization = initialization or Initialization()
        self.expand = keras.layers.Dense(intermediate_dim, kernel_initializer=initialization.inner(), name="expand")
        self.contract = keras.layers.Dense(hidden_dim, kernel_initializer=initialization.residual(), name="contract")
        self.activation = activation(activation_name)

    def call(self, x):
        return self.contract(self.activation(self.expand(x)))
