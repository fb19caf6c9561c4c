"""Activations by the names that configurations use."""

import math

import keras
from keras import ops


def gelu(x):
    """Returns 0.5 x (1 + erf(x / sqrt(2))), Hugging Face's "gelu": x Phi(x) (Hendrycks and Gimpel, 2016, arXiv 1606.08415)."""

    def value_and_slope(x):
        doubled = 1 + ops.erf(x * math.sqrt(0.5))
        # LiteRT has no erf, but its converter knows gelu by this order of operations.
        return 0.5 * x * doubled, 0.5 * doubled + x * ops.exp(-0.5 * (x * x)) * (1 / math.sqrt(2 * math.pi))

    return _with_slope(x, value_and_slope)


def gelu_tanh(x):
    """Returns 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the form of Google's BERT code."""
    scale, cubic = 2 * math.sqrt(2 / math.pi), 2 * math.sqrt(2 / math.pi) * 0.044715

    def value_and_slope(x):
        square = x * x
        share = ops.sigmoid(x * (scale + cubic * square))  # (1 + tanh(u)) / 2 is sigmoid(2 u)
        value = x * share
        return value, share + value * (1 - share) * (scale + 3 * cubic * square)

    return _with_slope(x, value_and_slope)


def _with_slope(x, value_and_slope):
    """Returns the value of a function of single numbers, computed in float32 or more.

    The slope is all that the gradient keeps: the rules of each operation take up to twice as long (docs/decisions/gelu.md).
    """

    @ops.custom_gradient
    def value_of(x):
        wide = x if keras.backend.standardize_dtype(x.dtype) == "float64" else ops.cast(x, "float32")
        value, slope = (ops.cast(each, x.dtype) for each in value_and_slope(wide))

        def gradient(*args, upstream=None):
            upstream = args[-1] if upstream is None else upstream
            return upstream * slope

        return value, gradient

    return value_of(x)


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": keras.activations.relu,
    "swish": keras.activations.silu,
    "tanh": keras.activations.tanh,
}


def activation(name: str):
    """Returns the activation function of that name. Raises a ValueError that lists the known names."""
    if name not in ACTIVATIONS:
        raise ValueError(f"Unknown `activation`. Received: {name!r}. Known: {', '.join(sorted(ACTIVATIONS))}.")
    return ACTIVATIONS[name]
