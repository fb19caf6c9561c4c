"""Weight initialisation shared by the Transformer family."""

import dataclasses
import math
from collections.abc import Callable

import keras

Make = Callable[[], keras.initializers.Initializer]


def truncated_normal(stddev: float = 0.02) -> keras.initializers.Initializer:
    """Normal, cut at two standard deviations (BERT's `create_initializer`)."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


@dataclasses.dataclass(frozen=True)
class Initialization:
    """How the kernels of a block begin.

    Each kernel gets an initializer of its own: one of Keras' that is used twice gives equal kernels of equal shape.

    Attributes:
        inner: makes that of most kernels.
        output: makes that of kernels whose result is added to the residual stream; None for `inner`.
    """

    inner: Make = truncated_normal
    output: Make | None = None

    def residual(self) -> keras.initializers.Initializer:
        return (self.output or self.inner)()


def bert(stddev: float = 0.02) -> Initialization:
    """Normal, cut at two standard deviations, everywhere."""
    return Initialization(lambda: truncated_normal(stddev))


def gpt(stddev: float = 0.02) -> Initialization:
    """Normal everywhere (Radford et al., 2018, section 4.1)."""
    return Initialization(lambda: keras.initializers.RandomNormal(stddev=stddev))


def gpt2(stddev: float, num_layers: int) -> Initialization:
    """`gpt`, with residual projections scaled by 1 / sqrt(N), N = 2 `num_layers` residual sums (Radford et al., 2019,
    section 2.3)."""
    scaled = stddev / (2 * num_layers) ** 0.5
    return dataclasses.replace(gpt(stddev), output=lambda: keras.initializers.RandomNormal(stddev=scaled))


def glorot() -> Initialization:
    """Glorot's uniform one, with fans of whole matrices and not of single heads (tensor2tensor)."""
    return Initialization(GlorotUniform)


class GlorotUniform(keras.initializers.Initializer):
    """uniform(-a, a), a = sqrt(6 / (inputs + outputs)), of kernels D H K, H K D and plain ones.

    As in Keras, the seed is drawn once, when the initializer is made, so weights do not depend on how often it is called.
    """

    def __init__(self):
        self.seed = keras.initializers.RandomUniform().seed

    def __call__(self, shape, dtype=None):
        outside = shape[-1] if len(shape) == 2 else max(shape[0], shape[-1])  # D, which is no less than K
        inside = math.prod(shape) // outside
        limit = math.sqrt(6.0 / (inside + outside))
        return keras.initializers.RandomUniform(-limit, limit, seed=self.seed)(shape, dtype)
