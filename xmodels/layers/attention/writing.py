"""Writing keys and values into the cache of decoding."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras
from keras import ops

_assigns_slices = contextvars.ContextVar("_assigns_slices", default=False)


@contextlib.contextmanager
def assigned_slices() -> Iterator[None]:
    """Lets TensorFlow write caches inside the context by an assignment to a slice, for graphs that XLA does not compile.

    It is done in place where nothing else reads the old cache. A scatter, which is what XLA does in place, copies the whole cache
    there: a seventh of the time of greedy generation (benchmarks/results/generation.md). Other backends are as without it.
    """
    token = _assigns_slices.set(True)
    try:
        yield
    finally:
        _assigns_slices.reset(token)


def write_at(past, present, slot):
    """Writes keys or values `present` (B, H, L, K) into the cache `past` (B, H, S, K) from `slot` on. Has no gradient.

    It scatters rows of K numbers, since XLA then updates a `past` that a loop carries in place; a slice update would copy it.
    """
    present = ops.cast(present, past.dtype)
    if _assigns_slices.get() and keras.backend.backend() == "tensorflow":
        return _assigned(past, present, slot)
    (batch, heads, length, width), slots = ops.shape(present), ops.shape(past)[2]
    first = ops.expand_dims(ops.arange(batch * heads, dtype="int32") * slots + slot, 1)  # (B H, 1)
    rows = ops.reshape(first + ops.arange(length, dtype="int32"), (-1, 1))
    present = ops.reshape(present, (-1, width))
    return ops.reshape(ops.scatter_update(ops.reshape(past, (-1, width)), rows, present), ops.shape(past))


def _assigned(past, present, slot):
    """Computes `write_at`, with TensorFlow. An assignment takes as long for 16 bytes as for 4, so they are moved as one number."""
    import tensorflow as tf

    wide = tf.complex128
    (batch, heads, length, width), slots = ops.shape(present), ops.shape(past)[2]
    count = wide.size // past.dtype.size  # numbers that are moved as one
    count = 1 if width % count else count
    rows, each = batch * heads, width // count

    def moved(x, tokens):
        x = tf.reshape(x, (rows, tokens * each, count))
        return tf.squeeze(x, -1) if count == 1 else tf.bitcast(x, wide)

    written = tf.raw_ops.TensorStridedSliceUpdate(
        input=moved(past, slots), begin=tf.stack([0, slot * each]), end=tf.stack([rows, (slot + length) * each]),
        strides=[1, 1], value=moved(present, length),
    )  # fmt: skip
    written = written if count == 1 else tf.bitcast(written, past.dtype)
    return tf.reshape(written, (batch, heads, slots, width))
