"""Words as waves over positions: complex embeddings that know the order of words (Wang et al., 2020, ICLR, section 3)."""

import math

import keras
from keras import ops

from xmodels.layers.embeddings import word_vectors
from xmodels.layers.layer import Layer

# Whose own the frequencies are: of each dimension of each word, of each word, of each dimension, or nobody's: there is no order.
SHARING = ("none", "word", "dimension", "zero")


class ComplexWords(Layer):
    """f(w, t) = r exp(i (omega t + theta)) in each dimension, with an amplitude r, a frequency omega and a phase theta of the word w.

    A complex tensor is the real parts and, behind them, the imaginary parts: (..., 2 D). Angles are computed in float32, since half
    precision loses them at distant positions.

    Args:
        vocabulary_size: V.
        channels: D.
        sharing: one of `SHARING`.
        learned_phase: whether words have phases; otherwise they are zero, as in the authors' code.

    Call arguments:
        token_ids: int (B, L).
        padding_mask: bool (B, L), True on real tokens.

    Returns:
        (B, L, 2 D), zeros at padding. Positions count from 0.
    """

    def __init__(
        self, vocabulary_size: int, channels: int, sharing: str = "none", learned_phase: bool = False, **kwargs
    ):
        super().__init__(**kwargs)
        if sharing not in SHARING:
            raise ValueError(f"`sharing` must be one of {', '.join(SHARING)}. Received: {sharing!r}.")
        rows, columns = size = vocabulary_size, channels
        self.sharing, self.amplitude = sharing, word_vectors(rows, columns, name="amplitude")
        self.frequency = self.phase = None
        shape = {"none": size, "word": (rows, 1), "dimension": (1, columns)}.get(sharing)
        if shape is not None:
            make = keras.initializers.RandomUniform(-math.pi / 16, math.pi / 16) if sharing == "word" else geometric
            self.frequency = self.add_weight(name="frequency", shape=shape, initializer=make, autocast=False)
        if learned_phase:
            turn = keras.initializers.RandomUniform(0, 2 * math.pi)
            self.phase = self.add_weight(name="phase", shape=size, initializer=turn, autocast=False)

    def call(self, token_ids, padding_mask):
        token_ids = ops.cast(token_ids, "int32")
        amplitude = self.amplitude(token_ids)
        amplitude = amplitude * ops.expand_dims(ops.cast(padding_mask, amplitude.dtype), -1)  # (B, L, D)
        angle = self.angles(token_ids)
        if angle is None:
            return ops.concatenate([amplitude, ops.zeros_like(amplitude)], axis=-1)
        turned = (amplitude * ops.cast(part(angle), amplitude.dtype) for part in (ops.cos, ops.sin))
        return ops.concatenate(list(turned), axis=-1)

    def angles(self, token_ids):
        """Returns omega t + theta of int32 ids (B, L): float32 (B, L, D) or what broadcasts to it; None where all are zero."""
        found = None
        if self.frequency is not None:
            places = ops.arange(ops.shape(token_ids)[1], dtype="float32")[None, :, None]  # (1, L, 1)
            shared = self.sharing == "dimension"
            found = places * (self.frequency if shared else ops.take(self.frequency, token_ids, axis=0))
        if self.phase is not None:
            phase = ops.take(self.phase, token_ids, axis=0)
            found = phase if found is None else found + phase
        return found


def geometric(shape, dtype=None):
    """Returns 10000 ** (-k / D) for each dimension k of all words (V, D), the frequencies of a Transformer's positions."""
    rates = 10_000.0 ** (-ops.arange(shape[1], dtype="float32") / shape[1])
    return ops.cast(ops.broadcast_to(rates, shape), dtype or "float32")
