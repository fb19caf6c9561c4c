"""Gradients inside of a layer, which reversible networks need: the one place of the networks that names backends.

Keras has operations for values and `custom_gradient`, but none that differentiates (docs/decisions/reversible-blocks.md).
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras


def pullback(function: Callable, inputs: Sequence[Any]) -> tuple[Any, Callable[[Any], Sequence[Any]]]:
    """Returns `function(*inputs)`, and the function that maps a gradient of this value to those of the inputs.

    Args:
        function: of floating-point tensors, to one tensor.
        inputs: its arguments. Nothing else that it reads gets a gradient.

    Returns:
        The value, and (gradient of the value) -> a gradient for each input, zeros where the value does not depend on it.
    """
    return {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[keras.backend.backend()](function, inputs)


def _tensorflow(function, inputs):
    import tensorflow as tf

    inputs = list(inputs)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = function(*inputs)

    def pull(upstream):
        return tape.gradient(value, inputs, upstream, unconnected_gradients="zero")

    return value, pull


def _jax(function, inputs):
    import jax

    return jax.vjp(function, *inputs)


def _torch(function, inputs):
    import torch

    with torch.enable_grad():
        inputs = [x.detach().requires_grad_() for x in inputs]
        value = function(*inputs)

    def pull(upstream):
        found = torch.autograd.grad(value, inputs, upstream, allow_unused=True)
        return [torch.zeros_like(x) if each is None else each for each, x in zip(found, inputs, strict=True)]

    return value.detach(), pull
