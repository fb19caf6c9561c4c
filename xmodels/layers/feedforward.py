"""The position-wise feed-forward network (Vaswani et al., 2017, section 3.3)."""

import keras
from keras import ops

from xmodels.layers.activations import activation
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import Initialization
from xmodels.layers.layer import Layer
from xmodels.layers.wide_products import Dense


class FeedForward(Layer):
    """Dense, activation, Dense: (B, L, D) -> (B, L, F) -> (B, L, D). `dropout` follows the activation; BERT has none."""

    def __init__(
        self, hidden_dim: int, intermediate_dim: int, activation_name: str,
        initialization: Initialization | None = None, dropout: float = 0.0, use_bias: bool = True, **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        initialization = initialization or Initialization()
        self.make_inner(intermediate_dim, initialization, use_bias)
        self.contract = dense(hidden_dim, initialization.residual(), use_bias, "contract")
        self.activation = activation(activation_name)
        self.dropout = Dropout(dropout)

    def make_inner(self, intermediate_dim: int, initialization: Initialization, use_bias: bool) -> None:
        """Creates the layers that `inner` uses."""
        self.expand = dense(intermediate_dim, initialization.inner(), use_bias, "expand")

    def call(self, x, training=None):
        rows = ops.reshape(x, (-1, x.shape[-1]))  # of two axes, a product and its bias are one kernel in TensorFlow
        rows = self.contract(self.dropout(self.inner(rows), training=training))
        return ops.reshape(rows, (*ops.shape(x)[:-1], rows.shape[-1]))

    def inner(self, rows):
        """Returns the activations of the inner layer: (N, D) -> (N, F)."""
        return self.activation(self.expand(rows))


class GatedFeedForward(FeedForward):
    """A feed-forward network with a gated linear unit (Shazeer, 2020, arXiv 2002.05202, equation 6).

    The inner layer is activation(gate(x)) * linear(x). Arguments as in `FeedForward`.
    """

    def make_inner(self, intermediate_dim: int, initialization: Initialization, use_bias: bool) -> None:
        self.gate = dense(intermediate_dim, initialization.inner(), use_bias, "gate")
        self.linear = dense(intermediate_dim, initialization.inner(), use_bias, "linear")

    def inner(self, rows):
        return self.activation(self.gate(rows)) * self.linear(rows)


def dense(width: int, initializer, use_bias: bool, name: str) -> keras.layers.Dense:
    return Dense(width, use_bias=use_bias, kernel_initializer=initializer, name=name)
