"""Dropout whose masks are a pure function of a seed that the training step passes in.

Keras' own layer keeps a counter in a variable. `tf.distribute` mirrors that variable, so all replicas would draw the same
mask, and every checkpoint would have to hold it. Here the training step opens `dropout_seed(seed)`, with the number of the
step and the replica folded into `seed`, and each layer draws from it: resuming needs only the step number.
"""

import contextlib
import functools
import math
from collections.abc import Callable

import keras
from keras import ops

from xmodels.layers.compilation import compiled_form, is_worth_compiling

_ACTIVE = []


class StepSeed(keras.random.SeedGenerator):
    """A seed for one call of the network: two integers, the second of which advances with every draw."""

    def __init__(self, seed, draws: int = 0):
        # Not calling the parent: it would create the variable that this class exists to avoid.
        self.base = keras.ops.cast(seed, "uint32")  # (2,)
        self.draws = draws

    def next(self, ordered=True):
        self.draws += 1
        return keras.ops.stack([self.base[0], self.base[1] + keras.ops.cast(self.draws * 7919, "uint32")])


@contextlib.contextmanager
def dropout_seed(seed, draws: int = 0):
    """Makes all dropout inside the context draw from `seed`, integers of shape (2,), as if `draws` draws came before.

    Equal seeds give equal masks.
    """
    _ACTIVE.append(StepSeed(seed, draws))
    try:
        yield
    finally:
        _ACTIVE.pop()


def active_seed() -> StepSeed | None:
    """Returns the seed from which dropout draws; None outside of `dropout_seed`."""
    return _ACTIVE[-1] if _ACTIVE else None


class Dropout(keras.layers.Layer):
    """Sets a share `rate` of the inputs to zero during training and scales up the rest.

    Most of the cost of dropout is its random bits, so an element gets only 8 of them if that changes the rate by at most 2% of
    it, else 16: 0.1 becomes 26/256. The scale uses the rounded rate, so the expected output equals the input. Outside
    `dropout_seed` the bits come from Keras' global generator.
    """

    def __init__(self, rate: float, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.built = True  # it has no weights, and with a rate of 0 it may never be called

    def call(self, x, training=None):
        if not training or self.rate == 0.0:
            return x
        bits, dropped = resolution(self.rate)
        kept = ops.greater_equal(random_integers(ops.shape(x), bits), dropped - 2 ** (bits - 1))
        # On CPUs a product takes a third of the time of `where`, forward and backward.
        return x * (ops.cast(kept, x.dtype) * (2**bits / (2**bits - dropped)))


def resolution(rate: float) -> tuple[int, int]:
    """Returns the number of random bits per element, and for how many of their values the element is dropped."""
    for bits in (8, 16):
        dropped = round(rate * 2**bits)
        if abs(dropped - rate * 2**bits) <= 0.02 * dropped and dropped < 2**bits:
            break
    return bits, min(dropped, 2**bits - 1)


def random_integers(shape, bits: int):
    """Returns uniform signed integers of `bits` bits, from the seed of `dropout_seed`; a 32-bit word gives several of them."""
    count, each = math.prod(shape), 32 // bits
    values = ops.reshape(ops.view(_words(-(-count // each)), f"int{bits}"), (-1,))
    if not isinstance(count, int) or count % each:
        values = values[:count]
    return ops.reshape(values, shape)


def _words(count):
    """Returns (count, 1) words of 32 random bits: inside `dropout_seed`, a hash of the seed and the index of the word.

    On CPUs XLA runs the generators of `keras.random` word by word but vectorises this hash. It is `triple32` (Wellons, 2018,
    "hash-prospector") with half of the seed mixed in on the way, and gives equal masks with and without XLA.
    """
    seed = active_seed()
    if seed is None or keras.backend.backend() == "torch":  # torch has no arithmetic of uint32
        return keras.random.randint((count, 1), -(2**31), 2**31 - 1, "int32", seed=seed)
    if isinstance(count, int) and is_worth_compiling((count, 4)):
        return compiled_form(_hash_of(count))(seed.next())
    return _hash(seed.next(), count)


@functools.cache
def _hash_of(count: int) -> Callable:
    """Returns `_hash` for that many words, the same function each time."""
    return functools.partial(_hash, count=count)


def _hash(seed, count):
    first, second = ops.split(seed, 2)  # (1,) each
    x = ops.expand_dims(ops.cast(ops.arange(count, dtype="int32"), "uint32"), 1) + first  # (count, 1)
    x = _xor_shift_right(x, 17) * ops.cast(0xED5AD4BB, "uint32")
    x = ops.bitwise_xor(_xor_shift_right(x, 11), second) * ops.cast(0xAC4C1B51, "uint32")
    x = _xor_shift_right(x, 15) * ops.cast(0x31848BAB, "uint32")
    return _xor_shift_right(x, 14)


def _xor_shift_right(x, shift: int):
    return ops.bitwise_xor(x, ops.bitwise_right_shift(x, ops.cast(shift, "uint32")))
