"""Adafactor (Shazeer and Stern, 2018, arXiv 1804.04235)."""

import keras
from keras import ops


class Adafactor(keras.optimizers.Optimizer):
    """Adafactor without momentum, as used by T5.

    The second moment of a matrix is kept as the means of its rows and columns. The update is
    lr * max(epsilon_2, rms(w)) * u / max(1, rms(u) / clip_threshold) with u = g / sqrt(v).

    Keras' Adafactor also keeps a full-size second moment (so it saves no memory), caps the learning rate at 1 / sqrt(step)
    whatever the schedule, and factors the last two axes of any shape. Below the cap, both are equal on matrices.

    Args:
        learning_rate: relative to the root mean square of each variable.
        beta_2_decay: the decay rate of the second moment is 1 - step ** beta_2_decay.
        epsilon_1: added to squared gradients.
        epsilon_2: lower bound of rms(w).
        clip_threshold: upper bound of rms(u).
        smallest_factored: the two largest axes are factored if both have at least this size, as in T5.
    """

    def __init__(
        self, learning_rate=1e-2, beta_2_decay=-0.8, epsilon_1=1e-30, epsilon_2=1e-3, clip_threshold=1.0,
        smallest_factored=128, name="adafactor", **kwargs,
    ):  # fmt: skip
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.beta_2_decay, self.epsilon_1, self.epsilon_2 = beta_2_decay, epsilon_1, epsilon_2
        self.clip_threshold, self.smallest_factored = clip_threshold, smallest_factored

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._slots = [self._slots_of(variable) for variable in variables]

    def _slots_of(self, variable):
        """Creates the second moment of a variable: [r, c] if it is factored, [v] otherwise."""
        if (axes := self._factored_axes(variable.shape)) is None:
            return [self.add_variable_from_reference(variable, name="v")]
        shapes = [tuple(n for i, n in enumerate(variable.shape) if i != axis) for axis in axes]
        return [self.add_variable(s, dtype=variable.dtype, name=n) for s, n in zip(shapes, ("r", "c"), strict=True)]

    def _factored_axes(self, shape) -> tuple[int, int] | None:
        """Returns the two largest axes in order, the last of equal ones; None if the variable is not factored."""
        largest = sorted(range(len(shape)), key=lambda axis: (shape[axis], axis))[-2:]
        if len(largest) < 2 or min(shape[axis] for axis in largest) < self.smallest_factored:
            return None
        first, second = sorted(largest)
        return first, second

    def update_step(self, gradient, variable, learning_rate):
        gradient = ops.cast(gradient, variable.dtype)
        step = ops.cast(self.iterations + 1, variable.dtype)
        forget = ops.power(step, ops.cast(self.beta_2_decay, variable.dtype))  # 1 - beta_2
        direction = self._direction(gradient, variable, forget)
        direction = direction / ops.maximum(1.0, _rms(direction) / self.clip_threshold)
        scale = ops.maximum(_rms(variable), self.epsilon_2)
        self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * scale * direction)

    def _direction(self, gradient, variable, forget):
        slots = self._slots[self._get_variable_index(variable)]
        squared = ops.square(gradient) + self.epsilon_1
        axes = self._factored_axes(variable.shape)
        if axes is None:
            return gradient / ops.sqrt(self._update_average(slots[0], squared, forget))
        first, second = axes
        # The axes of the means are kept with size 1, so that both broadcast against the gradient.
        without_first = ops.expand_dims(self._update_average(slots[0], ops.mean(squared, axis=first), forget), first)
        without_second = ops.expand_dims(self._update_average(slots[1], ops.mean(squared, axis=second), forget), second)
        share = without_first / ops.mean(without_first, axis=second, keepdims=True)
        return gradient / (ops.sqrt(share) * ops.sqrt(without_second))

    def _update_average(self, slot, value, forget):
        """Updates a moving average and returns it."""
        new = (1.0 - forget) * slot + forget * value
        self.assign(slot, new)
        return new

    def get_config(self):
        names = ("beta_2_decay", "epsilon_1", "epsilon_2", "clip_threshold", "smallest_factored")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _rms(x):
    return ops.sqrt(ops.mean(ops.square(x)))
