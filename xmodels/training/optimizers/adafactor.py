"""Adafactor (Shazeer and Stern, 2018, arXiv 1804.04235)."""

from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from xmodels.training.optimizers.muon import as_matrix


class Adafactor(keras.optimizers.Optimizer):
    """Adafactor without momentum, as used by T5.

    The second moment of a matrix is kept as the means of its rows and columns. The update is
    lr * max(epsilon_2, rms(w)) * u / max(1, rms(u) / clip_threshold) with u = g / sqrt(v).

    Keras' Adafactor also keeps a full-size second moment (so it saves no memory), caps the learning rate at 1 / sqrt(step)
    whatever the schedule, and factors the last two axes of any shape. Below the cap, both are equal on matrices.

    Kernels of attention, whose three axes are those of a state, of heads and of their width, are one matrix, as in T5's code
    (`combine_dims` of Mesh TensorFlow).

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
        self._shapes = [_shape_of(variable) for variable in variables]
        self._slots = [self._slots_of(*each) for each in zip(variables, self._shapes, strict=True)]

    def _slots_of(self, variable, shape):
        """Creates the second moment of a variable that is factored by a shape: [r, c] if it is factored, [v] otherwise."""
        if (axes := self._factored_axes(shape)) is None:
            return [self.add_variable_from_reference(variable, name="v")]
        shapes = [tuple(n for i, n in enumerate(shape) if i != axis) for axis in axes]
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
        index = self._get_variable_index(variable)
        slots, shape = self._slots[index], self._shapes[index]
        squared = ops.square(gradient) + self.epsilon_1
        axes = self._factored_axes(shape)
        if axes is None:
            return gradient / ops.sqrt(self._update_average(slots[0], squared, forget))
        gradient, squared = ops.reshape(gradient, shape), ops.reshape(squared, shape)
        first, second = axes
        # The axes of the means are kept with size 1, so that both broadcast against the gradient.
        without_first = ops.expand_dims(self._update_average(slots[0], ops.mean(squared, axis=first), forget), first)
        without_second = ops.expand_dims(self._update_average(slots[1], ops.mean(squared, axis=second), forget), second)
        share = without_first / ops.mean(without_first, axis=second, keepdims=True)
        return ops.reshape(gradient / (ops.sqrt(share) * ops.sqrt(without_second)), variable.shape)

    def _update_average(self, slot, value, forget):
        """Updates a moving average and returns it."""
        new = (1.0 - forget) * slot + forget * value
        self.assign(slot, new)
        return new

    def upgrade(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the values of a state by today's names. In older ones kernels of attention were not factored.

        The means of a running average are the running averages of the means, so nothing is lost.
        """
        old, found = [values[name] for name in sorted(values)], []
        number = len(self.variables) - sum(map(len, self._slots))
        found, old = old[:number], old[number:]
        for slots, shape in zip(self._slots, self._shapes, strict=True):
            axes = self._factored_axes(shape)
            if axes and old and old[0].ndim == 3 and old[0].size == np.prod(shape):
                matrix = old.pop(0).reshape(shape)
                found += [matrix.mean(axis=axis) for axis in axes]
            else:
                found, old = found + old[: len(slots)], old[len(slots) :]
        names = list(self.named_variables)
        return dict(zip(names, found, strict=True)) if len(names) == len(found) and not old else dict(values)

    def get_config(self):
        names = ("beta_2_decay", "epsilon_1", "epsilon_2", "clip_threshold", "smallest_factored")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _shape_of(variable) -> tuple[int, ...]:
    """Returns the shape that is factored: that of a matrix for a kernel of attention."""
    shape = tuple(variable.shape)
    return as_matrix(shape) if len(shape) == 3 and variable.path.rsplit("/", 1)[-1] == "kernel" else shape


def _rms(x):
    return ops.sqrt(ops.mean(ops.square(x)))
