"""Activations by the names that configurations use."""

import math

import keras
from keras import ops


def gelu(x):
    """Returns x * Phi(x), by erf (Hendrycks and Gimpel, 2016, arXiv 1606.08415): Hugging Face's "gelu"."""

    def gate(x):
        share = 0.5 * ops.erf(x * math.sqrt(0.5)) + 0.5
        return share, ops.exp(-0.5 * (x * x)) * (1 / math.sqrt(2 * math.pi))

    return _gated(x, gate)


def gelu_tanh(x):
    """Returns 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the form of Google's BERT code."""
    scale, cubic = 2 * math.sqrt(2 / math.pi), 2 * math.sqrt(2 / math.pi) * 0.044715

    def gate(x):
        square = x * x
        share = ops.sigmoid(x * (scale + cubic * square))  # (1 + tanh(u)) / 2 is sigmoid(2 u)
        return share, share * (1 - share) * (scale + 3 * cubic * square)

    return _gated(x, gate)


def _gated(x, gate):
    """Returns x * share, where `gate` gives the share and its derivative; both are computed in float32 or more.

    The slope is all that the gradient keeps. By the rules of each operation a training step takes 1.1 times as long
    (docs/decisions/gelu.md).
    """

    @ops.custom_gradient
    def gated(x):
        wide = x if keras.backend.standardize_dtype(x.dtype) == "float64" else ops.cast(x, "float32")
        share, slope = gate(wide)
        slope = ops.cast(share + wide * slope, x.dtype)

        def gradient(*args, upstream=None):
            upstream = args[-1] if upstream is None else upstream
            return upstream * slope

        return ops.cast(wide * share, x.dtype), gradient

    return gated(x)


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
