"""Averages of weights: a moving one, kept while training, and one of the last states of a run."""

import contextlib
import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from safetensors import safe_open

from xmodels.training.step.precision import ONCE

NO_LOSS = 3e38  # in place of an evaluation that there was not, or whose loss was not finite


class MovingAverage:
    """After every update, average = keep * average + (1 - keep) * weight, with keep = min(decay, (1 + n) / (10 + n)).

    n counts the updates before. The second term is TensorFlow's (`tf.train.ExponentialMovingAverage`, `num_updates`): it
    lets a short run forget its random beginning. The first average is the weight itself. Skipped steps do not count.
    The variables belong to a state.

    Args:
        weights: the weights by name.
        decay: below 1; the average reaches back some 1 / (1 - decay) steps.
    """

    def __init__(self, weights: dict, decay: float):
        self.weights, self.decay = weights, decay
        self.averages = {
            name: tf.Variable(tf.zeros(w.shape, w.dtype), trainable=False, aggregation=ONCE)
            for name, w in weights.items()
        }
        self.updates = tf.Variable(0, trainable=False, aggregation=ONCE, dtype=tf.int64)

    @property
    def variables(self) -> dict[str, tf.Variable]:
        return {"average.updates": self.updates, **{f"average.{n}": v for n, v in self.averages.items()}}

    def describe(self) -> str:
        """Describes what is handed over; "" for the weights as they are."""
        return f"moving average, decay {self.decay:g}"

    def observe(self, loss: float) -> bool:
        """Takes in the loss of an evaluation. Returns whether something begins to be averaged now, here never."""
        return False

    def update(self) -> None:
        """Takes in the weights of now; called by every replica."""
        n = tf.cast(self.updates, tf.float32)
        keep = tf.where(n > 0, tf.minimum(self.decay, (1.0 + n) / (10.0 + n)), 0.0)
        for name, weight in self.weights.items():
            average = self.averages[name]
            average.assign(average + (1.0 - keep) * (weight.value - average))
        self.updates.assign_add(1)

    def apply_average(self) -> None:
        """Gives the weights their averages, if there are any yet."""
        if int(self.updates.numpy()):
            for name, weight in self.weights.items():
                weight.assign(self.averages[name])

    @contextlib.contextmanager
    def in_place(self):
        """Gives the weights their averages inside; behind it they are, bit for bit, what they were before."""
        kept = {name: weight.numpy() for name, weight in self.weights.items()}
        self.apply_average()
        try:
            yield
        finally:
            for name, weight in self.weights.items():
                weight.assign(kept[name])


class NonMonotonicAverage(MovingAverage):
    """The mean of the weights after each update from the moment on at which evaluations get no better (NT-ASGD; Merity et al., 2017,
    algorithm 1): once the loss of one is above the least of all but the last `interval` before it.

    Weights learn as before; only what is evaluated and handed over is another. Until the average begins, it is the weights.

    Args:
        weights: the weights by name.
        interval: evaluations, the paper's n.
    """

    def __init__(self, weights: dict, interval: int):
        super().__init__(weights, decay=1.0)
        self.begun = tf.Variable(0, trainable=False, aggregation=ONCE, dtype=tf.int64)
        # The least loss of those that are older than `interval` evaluations, and the losses of these, the oldest first.
        self.losses = tf.Variable(np.full(1 + interval, NO_LOSS), trainable=False, aggregation=ONCE, dtype=tf.float32)

    @property
    def variables(self):
        return super().variables | {"average.begun": self.begun, "average.losses": self.losses}

    def describe(self):
        return f"mean of the last {int(self.updates.numpy()):,} steps" if self.begun.numpy() else ""

    def update(self):
        n = tf.cast(self.updates, tf.float32)  # 0 until it has begun
        keep = n / (n + 1.0)
        for name, weight in self.weights.items():
            average = self.averages[name]
            average.assign(average + (1.0 - keep) * (weight.value - average))
        self.updates.assign_add(self.begun)

    def observe(self, loss: float) -> bool:
        """Takes in the loss of an evaluation. Returns whether the average begins now."""
        loss = min(loss, NO_LOSS) if math.isfinite(loss) else NO_LOSS
        least, *recent = self.losses.numpy().tolist()
        begins = loss > least and not self.begun.numpy()
        self.begun.assign(int(begins or self.begun.numpy()))
        self.losses.assign([min(least, recent[0]), *recent[1:], loss])
        return bool(begins)


def mean_of_files(paths: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns the mean of each tensor over the safetensors files that hold it (Vaswani et al., 2017, section 6.1).

    Added up in float64, one tensor at a time; what is no floating point is that of the last file. The tensors are those of the last
    file: a head that was added since is in the later ones only.
    """
    files = [safe_open(path, framework="numpy") for path in paths]
    held = [set(file.keys()) for file in files]
    means = {}
    for name in files[-1].keys():  # noqa: SIM118 - it is no dictionary
        values = [file.get_tensor(name) for file, names in zip(files, held, strict=True) if name in names]
        last = values[-1]
        if np.issubdtype(last.dtype, np.floating):
            last = np.mean(values, axis=0, dtype=np.float64).astype(last.dtype)
        means[name] = last
    return means
