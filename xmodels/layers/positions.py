"""Position encodings that are added to embeddings."""

import math

import keras
from keras import ops


def sinusoid(positions, channels: int):
    """Sinusoids with wavelengths from 2 pi to 10,000 * 2 pi in a geometric series, all sines first (tensor2tensor's layout).

    Args:
        positions: int, any shape S.
        channels: width. If it is odd, the last channel is zero.

    Returns:
        float32 S + (channels,)
    """
    scales = channels // 2
    step = math.log(10_000.0) / max(scales - 1, 1)
    inverse = ops.exp(ops.arange(scales, dtype="float32") * -step)
    angles = ops.expand_dims(ops.cast(positions, "float32"), -1) * inverse  # S + (channels // 2,)
    signal = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.pad(signal, [(0, 0)] * (len(signal.shape) - 1) + [(0, 1)]) if channels % 2 else signal


def interleaved_sinusoid(positions, channels: int):
    """Returns sin(p / 10000^(2j / D)) and cos(p / 10000^(2j / D)) in turn (Vaswani et al., 2017, section 3.5). D must be even."""
    rate = ops.exp(ops.arange(channels // 2, dtype="float32") * (-2.0 * math.log(10_000.0) / channels))
    angles = ops.expand_dims(ops.cast(positions, "float32"), -1) * rate
    pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # S + (D / 2, 2)
    return ops.reshape(pairs, (*ops.shape(angles)[:-1], channels))


def concatenated_sinusoid(positions, channels: int):
    """Returns the channels of `interleaved_sinusoid`, all sines first, as in Marian and in the code of Dai et al. (2019). D
    must be even."""
    pairs = interleaved_sinusoid(positions, channels)
    return ops.concatenate([pairs[..., 0::2], pairs[..., 1::2]], axis=-1)


def half_sinusoid(positions, channels: int):
    """Returns `sinusoid` in the first half of the channels, of which each has a multiple of 2, and zeros in the others.

    It is the first axis of tensor2tensor's `get_timing_signal_nd` in two dimensions; the second one is the same in the other half.
    """
    signal = sinusoid(positions, 2 * (channels // 4))
    rest = channels - signal.shape[-1]
    return ops.pad(signal, [(0, 0)] * (len(signal.shape) - 1) + [(0, rest)])


SINUSOIDS = {
    "sinusoid": sinusoid,
    "interleaved": interleaved_sinusoid,
    "concatenated": concatenated_sinusoid,
    "half": half_sinusoid,
}


class PositionSignal(keras.layers.Layer):
    """The encoding of each position.

    Args:
        kind: one of `SINUSOIDS`, or "learned".
        channels: D.
        most: rows of the learned table.

    Call arguments:
        positions: int, (L,) or (B, L).

    Returns:
        (L, D) or (B, L, D)

    Raises:
        ValueError: `kind` is unknown.
    """

    def __init__(self, kind: str, channels: int, most: int, **kwargs):
        super().__init__(**kwargs)
        if kind not in (*SINUSOIDS, "learned"):
            raise ValueError(f"Unknown `position`. Received: {kind!r}. Known: {', '.join(SINUSOIDS)}, learned.")
        self.kind, self.channels = kind, channels
        if kind == "learned":
            initializer = keras.initializers.RandomNormal(stddev=channels**-0.5)
            self.table = keras.layers.Embedding(most, channels, embeddings_initializer=initializer, name="table")

    def build(self, positions_shape):
        if self.kind == "learned":
            self.table.build(positions_shape)
        self.built = True

    def call(self, positions):
        if self.kind == "learned":
            return self.table(positions)
        return ops.cast(SINUSOIDS[self.kind](positions, self.channels), self.compute_dtype)
