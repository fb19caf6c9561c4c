"""Recurrent layers over all steps of a text, in one direction or in both, and their cells.

What the inputs add to the gates is one product for all steps, outside of the loop, so a cell sees (B, G D): G gates of D.
"""

import keras
from keras import ops

from xmodels.layers.layer import Layer


class OrthogonalGates(keras.initializers.Initializer):
    """(D, G D): a random orthogonal matrix for each of the G gates, side by side.

    As in Keras, the seed is drawn once, when the initializer is made, so weights do not depend on how often it is called.
    """

    def __init__(self):
        self.seed = keras.initializers.RandomUniform().seed

    def __call__(self, shape, dtype=None):
        width, gates = shape[0], shape[1] // shape[0]
        parts = [keras.initializers.Orthogonal(seed=self.seed + i)((width, width), dtype) for i in range(gates)]
        return ops.concatenate(parts, axis=1)


class OneForget(keras.initializers.Initializer):
    """(4 D,): zeros, and ones for the forget gate, the second of four (Gers et al., 2000; Jozefowicz et al., 2015)."""

    def __call__(self, shape, dtype=None):
        zeros, width = ops.zeros(shape, dtype), shape[0] // 4
        return ops.concatenate([zeros[:width], ops.ones((width,), dtype), zeros[: 2 * width]])


class LstmCell(keras.layers.Layer):
    """One step of an LSTM (Hochreiter and Schmidhuber, 1997; Zaremba et al., 2014, equations 7 to 9).

    Gates stand in the order input, forget, candidate, output, as in Keras and PyTorch.

    Call arguments:
        gates: (B, 4 D), what the input adds to the gates.
        states: h and c, (B, D) each.

    Returns:
        h (B, D), and [h, c].
    """

    num_gates = 4

    def __init__(self, hidden_dim: int, initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.state_size, self.output_size = [hidden_dim, hidden_dim], hidden_dim
        self.bias_initializer = OneForget()
        initializer = initializer or OrthogonalGates()
        self.recurrent = keras.layers.Dense(4 * hidden_dim, use_bias=False, kernel_initializer=initializer)

    def build(self, shape):
        self.recurrent.build((None, self.output_size))
        self.built = True

    def call(self, gates, states, training=None):
        h, c = states
        i, f, candidate, o = ops.split(gates + self.recurrent(h), 4, axis=-1)  # (B, D) each
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(candidate)
        h = ops.sigmoid(o) * ops.tanh(c)
        return h, [h, c]


class GruCell(keras.layers.Layer):
    """One step of a gated recurrent unit (Cho et al., 2014, equations 5 to 8): h = (1 - z) h + z candidate.

    Gates stand in the order update z, reset r, candidate. Keras' z is one minus this one: weights from there need the opposite
    sign of what makes z (kernel, recurrent kernel and bias).

    Args:
        reset_after: whether r multiplies U h + b, as in cuDNN and PyTorch, in place of h, as in the paper.

    Call arguments:
        gates: (B, 3 D), what the input adds to the gates.
        states: h, (B, D).

    Returns:
        h (B, D), and [h].
    """

    num_gates = 3

    def __init__(self, hidden_dim: int, reset_after: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.state_size, self.output_size, self.reset_after = hidden_dim, hidden_dim, reset_after
        self.bias_initializer = "zeros"
        self.recurrent = keras.layers.Dense(2 * hidden_dim, use_bias=False, kernel_initializer=OrthogonalGates())
        self.recurrent_candidate = keras.layers.Dense(
            hidden_dim, use_bias=reset_after, kernel_initializer=OrthogonalGates()
        )

    def build(self, shape):
        for dense in (self.recurrent, self.recurrent_candidate):
            dense.build((None, self.output_size))
        self.built = True

    def call(self, gates, states, training=None):
        h = self.updated(gates, states[0])
        return h, [h]

    def updated(self, gates, h):
        """The state behind the step, from what inputs add to the gates (B, 3 D) and the state before, h (B, D)."""
        width = self.output_size
        z, r = ops.split(ops.sigmoid(gates[:, : 2 * width] + self.recurrent(h)), 2, axis=-1)  # (B, D) each
        past = r * self.recurrent_candidate(h) if self.reset_after else self.recurrent_candidate(r * h)
        return (1.0 - z) * h + z * ops.tanh(gates[:, 2 * width :] + past)


class Recurrent(Layer):
    """A cell over all steps, from left to right: (B, L, E) -> (B, L, D).

    Args:
        initializer: of what the inputs are multiplied with; by default Glorot's.
    """

    def __init__(self, cell, initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.gates = keras.layers.Dense(
            cell.num_gates * cell.output_size, kernel_initializer=initializer, bias_initializer=cell.bias_initializer, name="gates"
        )  # fmt: skip
        self.steps = keras.layers.RNN(cell, return_sequences=True, name="steps")

    def call(self, x):
        return self.steps(self.gates(x))


class Bidirectional(Layer):
    """Two recurrent layers, of which one reads from right to left (Schuster and Paliwal, 1997).

    The text is turned round by its length, so that padding stands behind it in both directions and reaches no state.

    Call arguments:
        x: (B, L, E).
        padding_mask: bool (B, L), True on real tokens, behind which padding stands.

    Returns:
        (B, L, 2 D), forwards and backwards; zeros at padding.
    """

    def __init__(self, forward: Recurrent, backward: Recurrent, **kwargs):
        super().__init__(**kwargs)
        self.ahead, self.behind = forward, backward  # PyTorch has a `forward` of its own

    def call(self, x, padding_mask):
        order = reversal(padding_mask)
        backwards = turned(self.behind(turned(x, order)), order)
        states = ops.concatenate([self.ahead(x), backwards], axis=-1)
        return states * ops.expand_dims(ops.cast(padding_mask, states.dtype), -1)


def reversal(padding_mask):
    """Where each place stands when a text is read from its end, padding staying behind it: bool (B, L) -> int (B, L)."""
    lengths = ops.sum(ops.cast(padding_mask, "int32"), axis=1, keepdims=True)  # (B, 1)
    place = ops.expand_dims(ops.arange(ops.shape(padding_mask)[1], dtype="int32"), 0)  # (1, L)
    return ops.where(place < lengths, lengths - 1 - place, place)


def turned(x, order):
    """(B, L, D) in the order of `reversal`, which is its own inverse."""
    return ops.take_along_axis(x, ops.expand_dims(order, -1), axis=1)
