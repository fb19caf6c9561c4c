"""Weight initialisation shared by the Transformer family."""

import contextlib
import contextvars
import dataclasses
import math
from collections.abc import Callable

import keras

Make = Callable[[], keras.initializers.Initializer]
MOST_AT_ONCE, OF_PART = 1 << 25, 1 << 22  # numbers that are drawn at once, and those of a part of a larger table
_is_loading = contextvars.ContextVar("_is_loading", default=False)


@contextlib.contextmanager
def loading():
    """Lets the initializers of this file give zeros, for a network whose weights are assigned next: to draw the weights of BERT-base
    takes seconds."""
    token = _is_loading.set(True)
    try:
        yield
    finally:
        _is_loading.reset(token)


class Drawn(keras.initializers.Initializer):
    """A mixin for initializers that draw: not while weights are loaded, and large tables in parts.

    A draw takes three times the memory of its numbers, which TensorFlow's allocator keeps. Rows of a part have a seed of their own.
    """

    def __call__(self, shape, dtype=None):
        if _is_loading.get():
            return keras.ops.zeros(shape, dtype)
        if math.prod(shape) <= MOST_AT_ONCE or not isinstance(self.seed, int):
            return super().__call__(shape, dtype)
        rows = max(1, OF_PART // math.prod(shape[1:]))
        parts = []
        for first in range(0, shape[0], rows):
            part = type(self).from_config({**self.get_config(), "seed": self.seed + first})
            parts.append(part((min(rows, shape[0] - first), *shape[1:]), dtype))
        return keras.ops.concatenate(parts)


@keras.saving.register_keras_serializable("xmodels")
class TruncatedNormal(Drawn, keras.initializers.TruncatedNormal):
    """That of Keras."""


@keras.saving.register_keras_serializable("xmodels")
class RandomNormal(Drawn, keras.initializers.RandomNormal):
    """That of Keras."""


@keras.saving.register_keras_serializable("xmodels")
class RandomUniform(Drawn, keras.initializers.RandomUniform):
    """That of Keras."""


def truncated_normal(stddev: float = 0.02) -> keras.initializers.Initializer:
    """Returns normal, truncated at two standard deviations (BERT's `create_initializer`)."""
    return TruncatedNormal(stddev=stddev)


@dataclasses.dataclass(frozen=True)
class Initialization:
    """How the kernels of a block are initialized.

    Every kernel gets a new initializer, since one of Keras' initializers gives equal values to all kernels of the same shape.

    Attributes:
        inner: makes the initializer of most kernels.
        output: makes the initializer of kernels whose output is added to the residual stream; None for `inner`.
    """

    inner: Make = truncated_normal
    output: Make | None = None

    def residual(self) -> keras.initializers.Initializer:
        return (self.output or self.inner)()


def bert(stddev: float = 0.02) -> Initialization:
    """Returns truncated normal for all kernels."""
    return Initialization(lambda: truncated_normal(stddev))


def gpt(stddev: float = 0.02) -> Initialization:
    """Returns normal for all kernels (Radford et al., 2018, section 4.1)."""
    return Initialization(lambda: RandomNormal(stddev=stddev))


def gpt2(stddev: float, num_layers: int) -> Initialization:
    """Returns `gpt`, with residual projections scaled by 1 / sqrt(N), N = 2 `num_layers` residual sums (Radford et al., 2019,
    section 2.3)."""
    scaled = stddev / (2 * num_layers) ** 0.5
    return dataclasses.replace(gpt(stddev), output=lambda: RandomNormal(stddev=scaled))


def glorot() -> Initialization:
    """Returns Glorot uniform for all kernels, with the fans of whole matrices rather than of single heads (tensor2tensor)."""
    return Initialization(GlorotUniform)


class GlorotUniform(keras.initializers.Initializer):
    """uniform(-a, a), a = sqrt(6 / (inputs + outputs)), for kernels of shape (D, H, K), (H, K, D), or with two axes.

    As in Keras, the seed is drawn once, when the initializer is made, so every call gives the same values.
    """

    def __init__(self):
        self.seed = keras.initializers.RandomUniform().seed

    def __call__(self, shape, dtype=None):
        outside = shape[-1] if len(shape) == 2 else max(shape[0], shape[-1])  # D, which is at least K
        inside = math.prod(shape) // outside
        limit = math.sqrt(6.0 / (inside + outside))
        return RandomUniform(-limit, limit, seed=self.seed)(shape, dtype)


def uniform(scale: float) -> Make:
    """Returns what makes initializers that are uniform between `-scale` and `scale`."""
    return lambda: RandomUniform(-scale, scale)


def fan_in_uniform() -> keras.initializers.Initializer:
    """Returns uniform(-a, a), a = 1 / sqrt(inputs), with which PyTorch's linear layers begin."""
    return keras.initializers.VarianceScaling(1 / 3, mode="fan_in", distribution="uniform")
