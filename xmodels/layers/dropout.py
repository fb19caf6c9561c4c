"""Dropout whose masks are a pure function of a seed that the training step passes in.

Keras' own layer keeps a counter in a variable. Under `tf.distribute` that counter is mirrored, so that all replicas
draw the same mask, and it would have to be part of every checkpoint. Here a step opens `dropout_seed(seed)`, with the
step and replica folded into `seed`, and each layer draws from it: resuming needs nothing but the step number.
"""

import contextlib
import math

import keras
from keras import ops

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

    The random bits are the price of dropout, so an element gets 8 of them where that rounds the rate by 2 % of it at most,
    else 16; 0.1 becomes 26/256. The scale is that of the rounded rate, so the expected output is the input. Outside
    `dropout_seed` it draws from Keras' global generator.
    """

    def __init__(self, rate: float, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.built = True  # it has no weights, and where there is nothing to drop nobody calls it

    def call(self, x, training=None):
        if not training or self.rate == 0.0:
            return x
        bits, dropped = resolution(self.rate)
        kept = ops.greater_equal(random_integers(ops.shape(x), bits), dropped - 2 ** (bits - 1))
        # A product costs a third of a choice on CPUs, forward and backward.
        return x * (ops.cast(kept, x.dtype) * (2**bits / (2**bits - dropped)))


def resolution(rate: float) -> tuple[int, int]:
    """How many bits decide about an element, and for how many of their values it is dropped."""
    for bits in (8, 16):
        dropped = round(rate * 2**bits)
        if abs(dropped - rate * 2**bits) <= 0.02 * dropped and dropped < 2**bits:
            break
    return bits, min(dropped, 2**bits - 1)


def random_integers(shape, bits: int):
    """Uniform signed integers of so many bits; a word of 32 gives several. Drawn as dropout is."""
    count, each = math.prod(shape), 32 // bits
    values = ops.reshape(ops.view(_words(-(-count // each)), f"int{bits}"), (-1,))
    if not isinstance(count, int) or count % each:
        values = values[:count]
    return ops.reshape(values, shape)


def _words(count):
    """(count, 1) words of 32 random bits: of the seed of the step, a hash of the seed and the place.

    XLA draws from the generators of `keras.random` word by word on CPUs, and vectorises this hash. It is `triple32`
    (Wellons, 2018, "hash-prospector") with half of the seed put in between, and gives equal masks with XLA and without.
    """
    seed = active_seed()
    if seed is None or keras.backend.backend() == "torch":  # which has no arithmetic of uint32
        return keras.random.randint((count, 1), -(2**31), 2**31 - 1, "int32", seed=seed)
    first, second = ops.split(seed.next(), 2)  # (1,) each
    x = ops.expand_dims(ops.cast(ops.arange(count, dtype="int32"), "uint32"), 1) + first  # (count, 1)
    x = _folded(x, 17) * ops.cast(0xED5AD4BB, "uint32")
    x = ops.bitwise_xor(_folded(x, 11), second) * ops.cast(0xAC4C1B51, "uint32")
    x = _folded(x, 15) * ops.cast(0x31848BAB, "uint32")
    return _folded(x, 14)


def _folded(x, shift: int):
    return ops.bitwise_xor(x, ops.bitwise_right_shift(x, ops.cast(shift, "uint32")))
