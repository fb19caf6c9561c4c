"""Recurrence in depth: one block, again and again (Dehghani et al., 2018, section 2.1)."""

import keras
from keras import ops

from xmodels.layers.positions import PositionSignal


class Steps(keras.layers.Layer):
    """Calls a function T times on a state, to which it adds the signals of place and of step before each call.

    It has no `call`; the steps are unrolled, so shapes are static.

    Args:
        kind: the signal of a step: "learned", a row of a table, times sqrt(D) (tensor2tensor); "sinusoid", as
            tensor2tensor counts them, from 0; "interleaved", as the paper does, from 1.
        channels: D.
        num_steps: T.
    """

    def __init__(self, kind: str, channels: int, num_steps: int, **kwargs):
        super().__init__(**kwargs)
        self.signal = PositionSignal(kind, channels, num_steps, name="signal")
        self.num_steps, self.scale = num_steps, channels**0.5 if kind == "learned" else 1.0
        self.first = 1 if kind == "interleaved" else 0
        self.built = True

    def signals(self, places) -> list:
        """Signals of places, (L, D) or (B, L, D) -> T like them, each with that of its step."""
        steps = self.signal(ops.arange(self.first, self.first + self.num_steps, dtype="int32")) * self.scale  # (T, D)
        return [places + steps[t] for t in range(self.num_steps)]

    def run(self, x, places, advance):
        """The last state.

        Args:
            x: (B, L, D).
            places: the signals of the places, (L, D) or (B, L, D).
            advance: function of a state with its signals, (B, L, D), and the number of the step, from 0, to the next
                state.

        Returns:
            (B, L, D), and further outputs of the network by name: none.
        """
        for t, signal in enumerate(self.signals(places)):
            x = advance(x + signal, t)
        return x, {}
