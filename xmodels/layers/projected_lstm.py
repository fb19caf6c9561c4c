"""An LSTM whose output is projected to a smaller state (Sak et al., 2014), with limits for both (Peters et al., 2018)."""

import keras
from keras import ops

from xmodels.layers.layer import Layer
from xmodels.layers.recurrent import OneForget


class ProjectedLstmCell(keras.layers.Layer):
    """One step. Gates are in the order input, forget, candidate, output.

    Args:
        cell_dim: C, the width of the cell.
        output_dim: P, the width of the output, which is also the state that the gates read.
        cell_clip: the largest absolute value in the cell.
        output_clip: the largest absolute value of an output.

    Call arguments:
        gates: (B, 4 * C), the projected inputs.
        states: h (B, P) and c (B, C).

    Returns:
        h (B, P), and [h, c].
    """

    def __init__(self, cell_dim: int, output_dim: int, cell_clip: float, output_clip: float, initializer, **kwargs):
        super().__init__(**kwargs)
        self.state_size, self.output_size = [output_dim, cell_dim], output_dim
        self.cell_clip, self.output_clip = cell_clip, output_clip
        self.recurrent = keras.layers.Dense(4 * cell_dim, use_bias=False, kernel_initializer=initializer)
        self.projection = keras.layers.Dense(output_dim, use_bias=False, kernel_initializer=initializer)

    def build(self, shape):
        self.recurrent.build((None, self.output_size))
        self.projection.build((None, self.state_size[1]))
        self.built = True

    def call(self, gates, states, training=None):
        h, c = states
        i, f, candidate, o = ops.split(gates + self.recurrent(h), 4, axis=-1)  # (B, C) each
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(candidate)
        c = ops.clip(c, -self.cell_clip, self.cell_clip)
        h = self.projection(ops.sigmoid(o) * ops.tanh(c))
        h = ops.clip(h, -self.output_clip, self.output_clip)
        return h, [h, c]


class Steps(keras.layers.RNN):
    """An `RNN` that hands no mask on: what follows knows which steps are real."""

    def compute_mask(self, inputs, mask=None):
        return None


class ProjectedLstm(Layer):
    """A `ProjectedLstmCell` over all steps. The inputs of all steps are projected in one product, outside of the loop.

    Call arguments:
        x: (B, L, E).
        state: (B, P + C), h and c before the first step.
        real: bool (B, L); where it is False the state stays what it was. None for steps that are all real.

    Returns:
        (B, L, P), and the state after the last step, (B, P + C).
    """

    def __init__(self, cell_dim: int, output_dim: int, cell_clip: float, output_clip: float, **kwargs):
        super().__init__(**kwargs)
        self.output_dim, initializer = output_dim, keras.initializers.GlorotUniform
        self.gates = keras.layers.Dense(
            4 * cell_dim, kernel_initializer=initializer(), bias_initializer=OneForget(), name="gates"
        )
        cell = ProjectedLstmCell(cell_dim, output_dim, cell_clip, output_clip, initializer())
        self.steps = Steps(cell, return_sequences=True, return_state=True, name="steps")

    def call(self, x, state, real=None):
        state = ops.cast(state, self.compute_dtype)
        initial = [state[:, : self.output_dim], state[:, self.output_dim :]]
        x, h, c = self.steps(self.gates(x), initial_state=initial, mask=real)
        return x, ops.concatenate([h, c], axis=-1)
