"""Weights of encoders as Hugging Face names them, for tests of mixers that have no table of conversion yet."""

from collections.abc import Mapping

import numpy as np

from xmodels.models.backbone import Backbone, named_weights

LAYERS = {
    "token.embeddings": "word_embeddings.weight", "segment.embeddings": "token_type_embeddings.weight",
    "position.embeddings": "position_embeddings.weight", "norm": "LayerNorm", "mixer.merge": "attention.output.dense",
    "mixer_norm": "attention.output.LayerNorm", "feedforward.expand": "intermediate.dense", "feedforward.contract": "output.dense",
    "feedforward_norm": "output.LayerNorm",
}  # fmt: skip
WEIGHTS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def assign_hugging_face(network: Backbone, weights: Mapping[str, np.ndarray], prefix: str) -> None:
    """Gives an encoder the weights that Hugging Face's network of the same kind has below `prefix`."""
    for ours, variable in named_weights(network).items():
        value = weights[f"{prefix}.{hugging_face_name(ours)}"]
        variable.assign((value.T if ours.endswith("kernel") else value).reshape(variable.shape))


def hugging_face_name(ours: str) -> str:
    place, _, rest = ours.partition(".")
    if place == "pooler":
        return f"pooler.{WEIGHTS[rest]}"
    start = "embeddings"
    if place == "blocks":
        number, _, rest = rest.partition(".")
        start = f"encoder.layer.{number}"
    layer, _, weight = rest.rpartition(".")
    if rest in LAYERS:
        return f"{start}.{LAYERS[rest]}"
    return f"{start}.{LAYERS.get(layer) or 'attention.self.' + layer.removeprefix('mixer.')}.{WEIGHTS[weight]}"
