"""An LSTM whose recurrent weights are dropped (Merity et al., 2017, arXiv 1708.02182, section 2)."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.recurrent import LstmCell, LstmSteps, swap_rows_and_steps


class WeightDropCell(LstmCell):
    """The recurrent kernel of an LSTM of which some numbers may be zero, the same at all steps.

    Args:
        hidden_dim: D.
        initializer: of the recurrent kernel.
        rate: of the numbers of the kernel that are dropped.
    """

    def __init__(self, hidden_dim: int, initializer, rate: float, **kwargs):
        super().__init__(hidden_dim, initializer, **kwargs)
        self.recurrent.build((None, hidden_dim))
        self.weight_dropout = Dropout(rate)

    def draw_kernel(self, training=None):
        """Returns the kernel for all steps, (D, 4 * D)."""
        kernel = ops.cast(ops.convert_to_tensor(self.recurrent.kernel), self.compute_dtype)
        return self.weight_dropout(kernel, training=training)


class WeightDropLstm(Layer):
    """An LSTM over all steps. The inputs of all steps are projected in one product, outside of the loop.

    All weights begin uniform between -1 / sqrt(D) and 1 / sqrt(D), as in PyTorch.

    Args:
        hidden_dim: D.
        rate: of the recurrent weights that are dropped, in one draw for all steps and rows.
        window: gradients flow through at most so many steps, from each multiple of `window` on; 0 for all.

    Call arguments:
        x: (B, N, E).
        state: (B, 2 * D), h and c before the first step.
        padding_mask: bool (B, N), True on real tokens, or None. The state stays as it is at padding.

    Returns:
        (B, N, D), and the state after the last step, (B, 2 * D).
    """

    def __init__(self, hidden_dim: int, rate: float, window: int = 0, **kwargs):
        super().__init__(**kwargs)
        scale = hidden_dim**-0.5
        self.window = window
        self.gates = keras.layers.Dense(
            4 * hidden_dim, kernel_initializer=uniform(scale), bias_initializer=uniform(scale)
        )
        cell = WeightDropCell(hidden_dim, uniform(scale), rate)
        self.steps = LstmSteps(cell, name="steps")

    def call(self, x, state, padding_mask=None, training=None):
        h, c = ops.split(ops.cast(state, self.compute_dtype), 2, axis=-1)
        gates = self.gates(swap_rows_and_steps(x))  # (N, B, 4 * D), which then need not be swapped
        kernel = self.steps.cell.draw_kernel(training)
        x, cells = self.steps(gates, h, c, kernel, padding_mask, window=self.window)
        return swap_rows_and_steps(x), ops.concatenate([x[-1], cells[-1]], axis=-1)


def uniform(scale: float) -> keras.initializers.Initializer:
    """Returns an initializer that is uniform between -`scale` and `scale`."""
    return keras.initializers.RandomUniform(-scale, scale)
