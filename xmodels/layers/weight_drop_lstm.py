"""An LSTM whose recurrent weights are dropped (Merity et al., 2017, arXiv 1708.02182, section 2)."""

import contextlib

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.recurrent import LstmCell


class WeightDropCell(LstmCell):
    """One step of an LSTM that may use a recurrent kernel of which some numbers are zero, the same at all steps.

    Args:
        hidden_dim: D.
        initializer: of the recurrent kernel.
        rate: of the numbers of the kernel that are dropped.

    Call arguments:
        gates: (B, 4 * D + 2), the projected inputs, 1 where no gradient flows into the states before, and 1 on real tokens. The state
            stays as it is at others.
        states: h and c, (B, D) each.

    Returns:
        h (B, D), and [h, c].
    """

    def __init__(self, hidden_dim: int, initializer, rate: float, **kwargs):
        super().__init__(hidden_dim, initializer, **kwargs)
        self.recurrent.build((None, hidden_dim))
        self.weight_dropout = Dropout(rate)
        self._dropped = None

    def build(self, shape):
        """Creates nothing: the kernel is needed before the first step."""

    @contextlib.contextmanager
    def one_mask(self, training):
        """Draws a mask of the recurrent kernel, which all steps inside use; without training, all of the kernel is used."""
        kernel = ops.cast(ops.convert_to_tensor(self.recurrent.kernel), self.compute_dtype)
        self._dropped = self.weight_dropout(kernel, training=training)
        try:
            yield
        finally:
            self._dropped = None

    def call(self, gates, states, training=None):
        cut, real = gates[:, -2:-1] > 0.5, gates[:, -1:] > 0.5  # (B, 1) each
        before = [ops.where(cut, ops.stop_gradient(state), state) for state in states]
        i, f, candidate, o = ops.split(gates[:, :-2] + ops.matmul(before[0], self._dropped), 4, axis=-1)  # (B, D) each
        c = ops.sigmoid(f) * before[1] + ops.sigmoid(i) * ops.tanh(candidate)
        h = ops.sigmoid(o) * ops.tanh(c)
        h, c = (ops.where(real, *each) for each in zip((h, c), before, strict=True))
        return h, [h, c]


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
        self.steps = keras.layers.RNN(cell, return_sequences=True, return_state=True, name="steps")

    def call(self, x, state, padding_mask=None, training=None):
        h, c = ops.split(ops.cast(state, self.compute_dtype), 2, axis=-1)
        gates = self.gates(x)
        gates = ops.concatenate(
            [gates, ops.cast(self._marks(x, padding_mask), gates.dtype)], axis=-1
        )  # (B, N, 4 * D + 2)
        with self.steps.cell.one_mask(training):
            x, h, c = self.steps(gates, initial_state=[h, c], training=training)
        return x, ops.concatenate([h, c], axis=-1)

    def _marks(self, x, padding_mask):
        """Returns where gradients end, and where tokens are real: bool (B, N, 2)."""
        shape = ops.shape(x)[:2]
        places = ops.arange(shape[1], dtype="int32")
        cuts = ops.logical_and(places > 0, places % self.window == 0) if self.window else ops.zeros_like(places, "bool")
        real = ops.ones(shape, "bool") if padding_mask is None else ops.cast(padding_mask, "bool")
        return ops.stack([ops.broadcast_to(cuts, shape), real], axis=-1)


def uniform(scale: float) -> keras.initializers.Initializer:
    """Returns an initializer that is uniform between -`scale` and `scale`."""
    return keras.initializers.RandomUniform(-scale, scale)
