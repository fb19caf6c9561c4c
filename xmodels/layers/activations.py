"""Activations by the names that configurations use."""

import keras

ACTIVATIONS = {
    "gelu": lambda x: keras.activations.gelu(x, approximate=False),  # x * Phi(x) with erf: Hugging Face's "gelu"
    "gelu_tanh": lambda x: keras.activations.gelu(x, approximate=True),  # Google's BERT code
    "relu": keras.activations.relu,
    "swish": keras.activations.silu,
    "tanh": keras.activations.tanh,
}


def activation(name: str):
    """Returns the activation function of that name. Raises a ValueError that lists the known names."""
    if name not in ACTIVATIONS:
        raise ValueError(f"Unknown `activation`. Received: {name!r}. Known: {', '.join(sorted(ACTIVATIONS))}.")
    return ACTIVATIONS[name]
