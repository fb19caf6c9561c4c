"""How formats name the weights of a layer: tables name layers, and this file what stands behind their names."""

import dataclasses
from collections.abc import Mapping

DENSE, NORM, EMBEDDING = ("kernel", "bias"), ("gamma", "beta", "scale"), ("embeddings",)


@dataclasses.dataclass(frozen=True)
class Naming:
    """The ends of names in a format.

    Attributes:
        ends: our weight of a layer -> what the format appends to the name of the layer; layers lack the weights that are not named.
    """

    ends: Mapping[str, str]

    def weights(self, layers: Mapping[str, str]) -> dict[str, str]:
        """Returns our name -> theirs of each weight of `layers`, our layer -> theirs."""
        return {
            f"{ours}.{weight}": theirs + self.ends[weight]
            for ours, theirs in layers.items()
            for weight in _weights_of(ours)
            if weight in self.ends
        }


def _weights_of(layer: str) -> tuple[str, ...]:
    """Returns the weights that a layer of ours may have, told from its name."""
    if layer.endswith("norm"):
        return NORM
    return EMBEDDING if ".embedding." in layer else DENSE


def repeat(ours: str, theirs: str, part: Mapping[str, str]) -> dict[str, str]:
    """Returns the names of a part that is there several times: both prefixes, with their placeholders, before its names."""
    return {ours + name: theirs + their_name for name, their_name in part.items()}


def add_cross_attention(block: Mapping[str, str], own: str, cross: str) -> dict[str, str]:
    """Returns the names of a block's layers with those of a second attention, whose names have `cross` where the first has `own`."""
    layers = {ours: theirs for ours, theirs in block.items() if ours.startswith("mixer")}
    return {
        **block,
        **{ours.replace("mixer", "cross"): theirs.replace(own, cross) for ours, theirs in layers.items()},
    }


TORCH = Naming({"kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias", "embeddings": ".weight"})
TORCH_WITHOUT_BIASES = Naming({"kernel": ".weight", "gamma": ".weight", "embeddings": ".weight"})
TENSORFLOW = Naming({"kernel": "/kernel", "bias": "/bias", "gamma": "/gamma", "beta": "/beta", "embeddings": ""})
KERAS = Naming({"kernel": "/vars/0", "bias": "/vars/1", "gamma": "/vars/0", "beta": "/vars/1", "embeddings": "/vars/0"})
PADDLE = Naming({"kernel": ".w_0", "bias": ".b_0", "gamma": "_scale", "beta": "_bias", "embeddings": ""})
OPENAI = Naming({"kernel": "/w", "bias": "/b", "gamma": "/g", "beta": "/b", "embeddings": ""})

# KerasHub's names of the layers of its Transformers.
KERAS_HUB_BLOCK = {
    "mixer.query": "_self_attention_layer/query_dense",
    "mixer.key": "_self_attention_layer/key_dense",
    "mixer.value": "_self_attention_layer/value_dense",
    "mixer.merge": "_self_attention_layer/output_dense",
    "mixer_norm": "_self_attention_layer_norm",
    "feedforward.expand": "_feedforward_intermediate_dense",
    "feedforward.contract": "_feedforward_output_dense",
    "feedforward_norm": "_feedforward_layer_norm",
}
KERAS_HUB_CROSSED_BLOCK = add_cross_attention(KERAS_HUB_BLOCK, "_self_", "_cross_")
KERAS_HUB_ENCODER, KERAS_HUB_DECODER = "layers/transformer_encoder_", "layers/transformer_decoder_"
