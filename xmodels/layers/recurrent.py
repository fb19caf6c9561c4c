"""Recurrent layers over all steps of a text, in one direction or in both, and their cells.

The inputs of all steps are projected in one product, outside of the loop, so a cell takes (B, G * D): the inputs of G gates.
"""

import keras
from keras import ops

from xmodels.layers.gradients import take_permuted
from xmodels.layers.layer import Layer
from xmodels.layers.lstm_steps import run_lstm


class OrthogonalGates(keras.initializers.Initializer):
    """A kernel (D, G * D) with a random orthogonal matrix for each of the G gates.

    As in Keras, the seed is drawn once, when the initializer is made, so every call gives the same values.
    """

    def __init__(self):
        self.seed = keras.initializers.RandomUniform().seed

    def __call__(self, shape, dtype=None):
        width, gates = shape[0], shape[1] // shape[0]
        parts = [keras.initializers.Orthogonal(seed=self.seed + i)((width, width), dtype) for i in range(gates)]
        return ops.concatenate(parts, axis=1)


class OneForget(keras.initializers.Initializer):
    """A bias (4 * D,) of zeros, with ones for the forget gate, the second of four (Gers et al., 2000; Jozefowicz et al., 2015)."""

    def __call__(self, shape, dtype=None):
        zeros, width = ops.zeros(shape, dtype), shape[0] // 4
        return ops.concatenate([zeros[:width], ops.ones((width,), dtype), zeros[: 2 * width]])


class LstmCell(keras.layers.Layer):
    """One step of an LSTM (Hochreiter and Schmidhuber, 1997; Zaremba et al., 2014, equations 7 to 9).

    The gates are in the order input, forget, candidate, output, as in Keras and PyTorch.

    Call arguments:
        gates: (B, 4 * D), the projected inputs.
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


class LstmSteps(Layer):
    """Runs an LSTM over all steps, as `run_lstm`. Its weights are those of the cell.

    Call arguments:
        gates: (N, B, 4 * D), the projected inputs, step by step.
        h, c: (B, D), the state before the first step; None for zeros.
        kernel: what takes the place of the cell's kernel, (D, 4 * D); None for it.
        padding_mask, window, begins: as in `run_lstm`.

    Returns:
        h and c after each step, (N, B, D) each.
    """

    def __init__(self, cell: LstmCell, **kwargs):
        super().__init__(**kwargs)
        self.cell = cell

    def build(self, shape):
        if not self.cell.recurrent.built:
            self.cell.build(shape)

    def call(self, gates, h=None, c=None, kernel=None, padding_mask=None, window=0, begins=None):
        if kernel is None:
            kernel = ops.cast(ops.convert_to_tensor(self.cell.recurrent.kernel), gates.dtype)
        zeros = ops.zeros((ops.shape(gates)[1], self.cell.output_size), gates.dtype)
        h, c = (zeros if state is None else state for state in (h, c))
        return run_lstm(gates, kernel, h, c, padding_mask, window, begins)


class GruCell(keras.layers.Layer):
    """One step of a gated recurrent unit (Cho et al., 2014, equations 5 to 8): h = (1 - z) h + z candidate.

    The gates are in the order update z, reset r, candidate. Keras' z is one minus this z: in weights from Keras, flip the sign of
    the kernel, recurrent kernel and bias of z.

    Args:
        hidden_dim: D.
        reset_after: whether r multiplies U h + b, as in cuDNN and PyTorch, instead of h, as in the paper.

    Call arguments:
        gates: (B, 3 * D), the projected inputs.
        states: a list of h, (B, D).

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
        h = self.next_state(gates, states[0])
        return h, [h]

    def next_state(self, gates, h):
        """Returns the next state (B, D), from the projected inputs `gates` (B, 3 * D) and the state h (B, D)."""
        width = self.output_size
        z, r = ops.split(ops.sigmoid(gates[:, : 2 * width] + self.recurrent(h)), 2, axis=-1)  # (B, D) each
        past = r * self.recurrent_candidate(h) if self.reset_after else self.recurrent_candidate(r * h)
        return (1.0 - z) * h + z * ops.tanh(gates[:, 2 * width :] + past)


class Recurrent(Layer):
    """Runs a cell over all steps, from left to right: (B, L, E) -> (B, L, D).

    Args:
        cell: such as `LstmCell` or `GruCell`.
        initializer: of the kernel of the input projection.
        gates: another layer for the input projection.
    """

    def __init__(self, cell, initializer="glorot_uniform", gates=None, **kwargs):
        super().__init__(**kwargs)
        self.gates = gates or keras.layers.Dense(
            cell.num_gates * cell.output_size, kernel_initializer=initializer, bias_initializer=cell.bias_initializer, name="gates"
        )  # fmt: skip
        by_product = type(cell) is LstmCell  # others have rules of their own for a step
        self.steps = (
            LstmSteps(cell, name="steps") if by_product else keras.layers.RNN(cell, return_sequences=True, name="steps")
        )

    def call(self, x):
        if not isinstance(self.steps, LstmSteps):
            return self.steps(self.gates(x))
        return swap_rows_and_steps(self.steps(self.gates(swap_rows_and_steps(x)))[0])


def swap_rows_and_steps(x):
    """Returns (B, N, ...) -> (N, B, ...), and the other way round."""
    return ops.swapaxes(x, 0, 1)


class Bidirectional(Layer):
    """Two recurrent layers, one of which reads from right to left (Schuster and Paliwal, 1997).

    Only the real tokens are reversed, so that padding comes last in both directions and does not affect their states.

    Args:
        forward, backward: the layers.

    Call arguments:
        x: (B, L, E).
        padding_mask: bool (B, L), True on real tokens; padding is on the right.

    Returns:
        (B, L, 2 * D), forward and backward states; zeros at padding.
    """

    def __init__(self, forward: Recurrent, backward: Recurrent, **kwargs):
        super().__init__(**kwargs)
        self.ahead, self.behind = forward, backward  # PyTorch has a `forward` of its own

    def call(self, x, padding_mask):
        order = reversal(padding_mask)
        backwards = reverse_in_time(self.behind(reverse_in_time(x, order)), order)
        states = ops.concatenate([self.ahead(x), backwards], axis=-1)
        return states * ops.expand_dims(ops.cast(padding_mask, states.dtype), -1)


class TextsBidirectional(Layer):
    """A bidirectional LSTM over rows of one text, or of two that stand one behind the other and know nothing of each other.

    Args:
        hidden_dim: D, units of each direction.
        initializer: of all kernels; by default those of `Recurrent` and `LstmCell`.

    Call arguments:
        x: (B, L, E).
        padding_mask: bool (B, L), True on real tokens; padding is on the right.
        segment_ids: int (B, L), 1 on the tokens of the second text; None where there is one text.

    Returns:
        Two tensors (B, L, 2 * D): the outputs and the cells of the forward and the backward LSTM; zeros at padding.
    """

    def __init__(self, hidden_dim: int, initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.ahead, self.behind = (
            Recurrent(
                LstmCell(hidden_dim, initializer and initializer()),
                (initializer or keras.initializers.GlorotUniform)(),
            )
            for _ in range(2)
        )

    def call(self, x, padding_mask, segment_ids=None):
        real = ops.cast(padding_mask, "bool")
        order, begins = reversal_of_texts(real, segment_ids)
        ahead = self._run(self.ahead, x, begins)
        behind = [reverse_in_time(each, order) for each in self._run(self.behind, reverse_in_time(x, order), begins)]
        there = ops.expand_dims(ops.cast(real, ahead[0].dtype), -1)
        return tuple(ops.concatenate(pair, axis=-1) * there for pair in zip(ahead, behind, strict=True))

    def _run(self, direction, x, begins):
        """Returns the outputs and the cells of a direction, (B, L, D) each."""
        states = direction.steps(direction.gates(swap_rows_and_steps(x)), begins=begins)
        return [swap_rows_and_steps(each) for each in states]


def reversal_of_texts(padding_mask, segment_ids=None):
    """Returns the indices that reverse each of the texts of a row where it stands, int (B, L), and where a text begins in this order
    as in the other, bool (B, L).

    Args:
        padding_mask: bool (B, L).
        segment_ids: int (B, L), 1 on the tokens of the second text; None where there is one text.
    """
    place = ops.expand_dims(ops.arange(ops.shape(padding_mask)[1], dtype="int32"), 0)  # (1, L)
    if segment_ids is None:
        return reversal(padding_mask), ops.repeat(place == 0, ops.shape(padding_mask)[0], axis=0)
    real = ops.cast(padding_mask, "int32")
    total = ops.sum(real, axis=1, keepdims=True)  # (B, 1)
    first = ops.sum(real * ops.cast(segment_ids == 0, "int32"), axis=1, keepdims=True)
    inside = ops.where(place < first, first - 1 - place, first + total - 1 - place)
    return ops.where(place < total, inside, place), (place == 0) | (place == first)


def reversal(padding_mask):
    """Returns the indices that reverse the real tokens of each row and leave padding in place: bool (B, L) -> int (B, L)."""
    lengths = ops.sum(ops.cast(padding_mask, "int32"), axis=1, keepdims=True)  # (B, 1)
    place = ops.expand_dims(ops.arange(ops.shape(padding_mask)[1], dtype="int32"), 0)  # (1, L)
    return ops.where(place < lengths, lengths - 1 - place, place)


def reverse_in_time(x, order):
    """Returns x (B, L, D) in the order of `reversal`, which is its own inverse."""
    order = ops.expand_dims(order, 1)
    return ops.squeeze(take_permuted(ops.expand_dims(x, 1), order, order), 1)
