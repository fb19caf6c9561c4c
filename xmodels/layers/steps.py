"""Recurrence in depth: the same block applied repeatedly (Dehghani et al., 2018, section 2.1)."""

import keras
from keras import ops

from xmodels.layers.positions import PositionSignal


class Steps(keras.layers.Layer):
    """Applies a function T times to a state, adding the encodings of position and step before each call.

    It has no `call`; use `run`. The steps are unrolled, so shapes are static.

    Args:
        kind: the encoding of the step: "learned", a row of a table, times sqrt(D) (tensor2tensor); "sinusoid", with steps
            from 0 as in tensor2tensor; "interleaved", with steps from 1 as in the paper; "half", sinusoids in the second half of the
            channels, for positions that are encoded in the first one.
        channels: D.
        num_steps: T.
    """

    def __init__(self, kind: str, channels: int, num_steps: int, **kwargs):
        super().__init__(**kwargs)
        self.signal = PositionSignal(kind, channels, num_steps, name="signal")
        self.num_steps, self.scale = num_steps, channels**0.5 if kind == "learned" else 1.0
        self.first = 1 if kind == "interleaved" else 0
        self.moved = 2 * (channels // 4) if kind == "half" else 0
        self.built = True

    def signals(self, places) -> list:
        """Returns, for each of the T steps, `places` (L, D) or (B, L, D) plus the encoding of the step."""
        steps = self.signal(ops.arange(self.first, self.first + self.num_steps, dtype="int32")) * self.scale  # (T, D)
        steps = ops.roll(steps, self.moved, axis=-1) if self.moved else steps
        return [places + steps[t] for t in range(self.num_steps)]

    def run(self, x, places, advance, real=None):
        """Runs all steps.

        Args:
            x: (B, L, D).
            places: the encodings of the positions, (L, D) or (B, L, D).
            advance: a function of the state with its encodings added, (B, L, D), and the index of the step, from 0, that
                returns the next state, (B, L, D).
            real: bool (B, L), which positions hold tokens; None for all.

        Returns:
            The last state (B, L, D), and {}; subclasses return further outputs of the network there, by name.
        """
        for t, signal in enumerate(self.signals(places)):
            x = advance(x + signal, t)
        return x, {}
