"""The LSTMN: an LSTM that looks back at all of its states (Cheng, Dong and Lapata, 2016, arXiv 1601.06733, section 3.2)."""

import keras
from keras import ops

from xmodels.layers.layer import Layer
from xmodels.layers.recurrent import LstmCell


class MemoryTapeCell(LstmCell):
    """One step, equations 5 to 11: the states before it, weighted by attention, stand in the place of the last one.

    a_i = v . tanh(W_h h_i + W_x x_t + W_s s_{t-1}), with the summary s_{t-1} of the step before; s_t and the summary of the memories
    are the means of h_i and c_i over i < t by the softmax of a; an LSTM step from these gives h_t and c_t, which are written down.

    Call arguments:
        inputs: (B, 5 * D), the projected inputs of the gates and of the attention.
        states: s (B, D), the tape of h, c and W_h h (B, L, 3 * D), and which places are written, (B, L).

    Returns:
        h_t and the attention weights, (B, D + L), and the new states.
    """

    num_gates = 5

    def __init__(self, hidden_dim: int, initializer=None, **kwargs):
        super().__init__(hidden_dim, initializer, **kwargs)
        self.state_size = [hidden_dim, 3 * hidden_dim, 1]
        self.key, self.summary = (
            keras.layers.Dense(hidden_dim, use_bias=False, name=name) for name in ("key", "summary")
        )

    def build(self, shape):
        for layer in (self.key, self.summary):
            layer.build((None, self.output_size))
        initializer = keras.initializers.RandomNormal(stddev=self.output_size**-0.5)
        self.scale = self.add_weight(shape=(self.output_size,), initializer=initializer, name="scale")  # v
        super().build(shape)

    def call(self, inputs, states, training=None):
        (before, tape, written), dim = states, self.output_size
        gates, query = inputs[:, : 4 * dim], inputs[:, 4 * dim :] + self.summary(before)  # (B, 4 D), (B, D)
        inner = ops.tanh(tape[..., 2 * dim :] + ops.expand_dims(query, 1))  # (B, L, D)
        scores = ops.cast(ops.einsum("bld,d->bl", inner, ops.cast(self.scale, inner.dtype)), "float32")
        powers = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True)) * ops.cast(written, "float32")
        shares = powers / ops.maximum(ops.sum(powers, axis=-1, keepdims=True), 1e-30)  # zeros at the first step
        shares = ops.cast(shares, tape.dtype)
        found = ops.einsum("bl,bld->bd", shares, tape[..., : 2 * dim])  # (B, 2 D)
        h, (_, c) = super().call(gates, [found[:, :dim], found[:, dim:]])
        there = next_place(written)
        new = ops.concatenate([h, c, self.key(h)], axis=-1)
        tape = tape + ops.expand_dims(there, -1) * ops.expand_dims(new, 1)
        return ops.concatenate([h, shares], axis=-1), [found[:, :dim], tape, written + there]


class MemoryTapeLstm(Layer):
    """Runs a `MemoryTapeCell` over all steps, from left to right: (B, L, E) -> (B, L, D).

    Args:
        hidden_dim: D.
    """

    def __init__(self, hidden_dim: int, **kwargs):
        super().__init__(**kwargs)
        cell = MemoryTapeCell(hidden_dim, name="cell")
        self.hidden_dim = hidden_dim
        self.gates = keras.layers.Dense(4 * hidden_dim, bias_initializer=cell.bias_initializer, name="gates")
        self.look = keras.layers.Dense(hidden_dim, use_bias=False, name="look")  # W_x
        self.steps = keras.layers.RNN(cell, return_sequences=True, name="steps")

    def call(self, x):
        return self.run(x)[0]

    def run(self, x):
        """Returns the states (B, L, D), and the attention weights of each step over those before it, (B, L, L)."""
        inputs = ops.concatenate([self.gates(x), self.look(x)], axis=-1)
        batch, length, dim = ops.shape(x)[0], ops.shape(x)[1], self.hidden_dim
        shapes = (batch, dim), (batch, length, 3 * dim), (batch, length)
        found = self.steps(inputs, initial_state=[ops.zeros(shape, inputs.dtype) for shape in shapes])
        return found[..., :dim], found[..., dim:]


def next_place(written):
    """Returns 1 at the first place that is not written, (B, L), of 1 at the first t places and 0 behind."""
    before = ops.concatenate([ops.ones_like(written[:, :1]), written[:, :-1]], axis=1)
    return before - written
