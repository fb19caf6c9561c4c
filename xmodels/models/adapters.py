"""Low-rank adapters beside kernels that stay as they are: LoRA (Hu et al., 2021, arXiv 2106.09685), by Keras' `enable_lora`.

A kernel W of a layer becomes W + alpha / rank * A B, of which A and B are trained. B begins with zeros, so the network begins as
it was. A model folder holds the sum, so nothing else knows of adapters.
"""

from collections.abc import Sequence
from typing import Any

import keras

from data_pipelines.errors import UsageError
from xmodels.models.backbone import Backbone, named_weights, sublayers

LAYERS = ("query", "value")  # those of the paper (section 4.2)
A, B = "lora_kernel_a", "lora_kernel_b"


def add_adapters(backbone: Backbone, rank: int, alpha: float | None = None, layers: Sequence[str] = LAYERS) -> int:
    """Gives layers of a built network adapters, and lets nothing else of it be trained. Returns how many layers have one.

    Args:
        rank: columns of A and rows of B.
        alpha: A B is multiplied by alpha / rank; by default by 1.
        layers: the names of the layers, such as "query" or "expand".

    Raises:
        UsageError: no layer of the network has one of these names, or one cannot have an adapter.
    """
    for weight in backbone.weights:
        weight.trainable = False
    everything = sublayers(backbone)
    if missing := sorted(set(layers) - {layer.name for layer in everything}):
        known = sorted({layer.name for layer in everything if can_adapt(layer)})
        raise UsageError(
            f"--lora_layers={','.join(layers)}: the network has no layer named {missing[0]} that could have an adapter. It has "
            f"{', '.join(known) or 'none'}."
        )
    chosen = [layer for layer in everything if layer.name in layers]
    for layer in chosen:
        if not can_adapt(layer):
            raise UsageError(
                f"--lora_layers={','.join(layers)}: {layer.name} is no Dense layer or table, so it cannot have an adapter."
            )
        layer.enable_lora(rank, lora_alpha=alpha)
    return len(chosen)


def can_adapt(layer: keras.layers.Layer) -> bool:
    """Returns whether a layer can have an adapter."""
    return isinstance(layer, keras.layers.Dense | keras.layers.EinsumDense | keras.layers.Embedding)


def adapter_weights(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns the weights of adapters by name."""
    return {name: weight for name, weight in named_weights(layer).items() if is_of_adapter(name)}


def clear_adapters(layer: keras.layers.Layer) -> None:
    """Makes adapters add nothing to their kernels."""
    for name, weight in named_weights(layer).items():
        if name.endswith(B):
            weight.assign(keras.ops.zeros_like(weight))


def is_of_adapter(name: str) -> bool:
    """Returns whether a weight is that of an adapter."""
    return "lora_" in name.rpartition(".")[2]


def merged_weights(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns the weights by name, as `named_weights`, with adapters added to their kernels and not named themselves."""
    named = named_weights(layer)
    if not any(map(is_of_adapter, named)):
        return named
    names = {id(weight): name for name, weight in named.items()}
    for each in sublayers(layer):
        if getattr(each, "lora_enabled", False):
            stored = "_embeddings" if isinstance(each, keras.layers.Embedding) else "_kernel"
            named[names[id(getattr(each, stored))]] = getattr(each, stored[1:])
    return {name: weight for name, weight in named.items() if not is_of_adapter(name)}
