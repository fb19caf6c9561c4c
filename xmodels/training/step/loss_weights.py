"""Weights of losses that may change while a network learns."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class LossWeights:
    """What the losses of an objective count in the loss that is minimised, and how they appear in logs.

    They multiply the factor of each loss outside of the compiled pass, which therefore is compiled once.

    Attributes:
        weights: {name of a loss: its weight, a number or a function of the progress}. The progress is a float32 scalar, 0 at the
            first step and below 1 at the last one. Losses without a weight count 1.
        num_steps: steps of the training.
    """

    weights: Mapping[str, float | Callable] = dataclasses.field(default_factory=dict)
    num_steps: int = 1

    def at(self, names: Sequence[str], step):
        """Returns the weights of losses in a step, float32 (losses,); None if all of them are 1.

        Args:
            names: of the losses.
            step: the number of updates done, a number or a scalar tensor.
        """
        if not set(names) & set(self.weights):
            return None
        progress = tf.cast(step, tf.float32) / self.num_steps
        found = [self.weights.get(name, 1.0) for name in names]
        return tf.stack([tf.cast(w(progress) if callable(w) else w, tf.float32) for w in found])

    def changing(self, step: int) -> dict[str, float]:
        """Returns {name of a loss: its weight} of the weights that are functions of the progress."""
        progress = tf.cast(step, tf.float32) / self.num_steps
        return {name: float(weight(progress)) for name, weight in self.weights.items() if callable(weight)}

    def apply(self, names: Sequence[str], step, sums):
        """Returns (sum, weight) pairs, (N, 2), of which the first ones are those of losses, with their sums weighted."""
        if (weights := self.at(names, step)) is None:
            return sums
        count = len(names)
        losses = tf.stack([sums[:count, 0] * weights, sums[:count, 1]], axis=1)
        return tf.concat([losses, sums[count:]], axis=0)
