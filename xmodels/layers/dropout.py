"""Dropout whose masks are a pure function of a seed that the training step passes in.

Keras' own layer keeps a counter in a variable. Under `tf.distribute` that counter is mirrored, so that all replicas
draw the same mask, and it would have to be part of every checkpoint. Here a step opens `dropout_seed(seed)`, with the
step and replica folded into `seed`, and each layer draws from it: resuming needs nothing but the step number.
"""

import contextlib

import keras

_ACTIVE = []


class StepSeed(keras.random.SeedGenerator):
    """A seed that lives as long as one call of the network: two integers, of which draws advance the second."""

    def __init__(self, seed, draws: int = 0):
        # Not calling the parent: it would create the variable that this class exists to avoid.
        self.base = keras.ops.cast(seed, "uint32")  # (2,)
        self.draws = draws

    def next(self, ordered=True):
        self.draws += 1
        return keras.ops.stack([self.base[0], self.base[1] + keras.ops.cast(self.draws * 7919, "uint32")])


@contextlib.contextmanager
def dropout_seed(seed, draws: int = 0):
    """All dropout inside draws from `seed`, integers of shape (2,), as if it had drawn `draws` times before.

    Equal seeds give equal masks.
    """
    _ACTIVE.append(StepSeed(seed, draws))
    try:
        yield
    finally:
        _ACTIVE.pop()


def active_seed() -> StepSeed | None:
    """The seed from which dropout draws here; None outside of `dropout_seed`."""
    return _ACTIVE[-1] if _ACTIVE else None


class Dropout(keras.layers.Layer):
    """Sets a share `rate` of the inputs to zero while training and scales up the rest.

    Outside `dropout_seed` it draws from Keras' global generator.
    """

    def __init__(self, rate: float, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def call(self, x, training=None):
        if not training or self.rate == 0.0:
            return x
        return keras.random.dropout(x, self.rate, seed=active_seed())
