"""The base class of all networks: built from a frozen configuration, with named weights."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import keras

from data_pipelines.features import Feature, Features
from xmodels.models.config import TokenConfig
from xmodels.models.parts import Part


class Backbone(keras.Model):
    """A network that can be rebuilt from its configuration alone.

    Subclasses set `config_class` and `reads`, take `config` as their first argument, and return a dictionary with
    `sequence_output` (B, L, D) and, if they have one, `pooled_output` (B, D).
    """

    config_class: ClassVar[type[TokenConfig]] = TokenConfig
    # Weights of which a batch reads few rows, by their names in `named_weights`.
    sparse_tables: ClassVar[tuple[str, ...]] = ()
    any_length: ClassVar[bool] = False  # rows may be longer than `max_sequence_length`
    encodes: ClassVar[bool] = False  # it has a method `encode`, which encodes a source without a target
    fits_words: ClassVar[bool] = False  # it has `targets`, vectors of words near those of the places that they fit
    unknown_words_are_zeros: ClassVar[bool] = False  # in a table of given vectors that does not learn
    from_labels: ClassVar[bool] = False  # trained on labelled texts from random weights, without a pretraining system
    # Fields of the `interfaces.reading.Reading` of such a network that are not those of all others; a `frame` is a string.
    read_as: ClassVar[Mapping[str, Any]] = {}
    carries_memory: ClassVar[bool] = False  # carries a memory from segment to segment, like Transformer-XL
    reads: ClassVar[Features] = {"token_ids": Feature((None,)), "padding_mask": Feature((None,), "bool")}
    # Networks as which an encoder and a decoder may begin (`adopt_part`). It holds for this class alone, not for subclasses.
    begins_as: ClassVar[tuple[str, ...]] = ()
    may_read: ClassVar[Features] = {}  # optional features; with `pack_ids`, it reads packed rows (`ops.packing`)

    def __init__(self, config: TokenConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config

    @property
    def rewinds(self) -> bool:
        """Whether `decode` may go back to an earlier position and read other tokens there."""
        return not self.carries_memory

    @property
    def shares_past(self) -> bool:
        """Whether `decode` supports beams that share the past of their text, `attention.places.Beams`."""
        return False

    @property
    def places_texts(self) -> bool:
        """Whether `decode` supports texts that are at different positions, `attention.places.Beams` with a position of each."""
        return False

    @property
    def shows_attention(self) -> bool:
        """Whether the network has `attention_maps`, and these are probabilities."""
        return hasattr(self, "attention_maps") and getattr(self.config, "has_probabilities", True)

    def get_config(self):
        return {"config": self.config.to_json()}

    @property
    def passes(self) -> list:
        """The layers in the order in which they are applied, if the network is `embed`, these layers, and at most a pooler; else [].

        Each is called as layer(x, visible=..., training=...) and maps the states of all tokens, (B, L, D), to the next ones.
        """
        return []

    @classmethod
    def adopt(
        cls, model: str, config: TokenConfig, values: Mapping[str, Any]
    ) -> tuple[str, TokenConfig, Mapping[str, Any]]:
        """Converts configuration and weights of another network, if this one can start from them; by default returns them as is.

        Args:
            model: the name of the other network, that of its file in `xmodels/models`.
            config: its configuration.
            values: {name: array} of its weights and those of its heads.

        Returns:
            (model, config, values), converted to this network if possible.
        """
        return model, config, values

    @classmethod
    def adopt_part(
        cls, part: str, config: TokenConfig, model: str, loaded: TokenConfig, values: Mapping[str, Any], source: str
    ) -> Part:
        """Converts weights of a language model to those of a part of this network; networks with `begins_as` define it.

        Args:
            part: "encoder" or "decoder".
            config: of this network.
            model, loaded, values: the name of the other network, one of `begins_as`; its configuration, and {name: array} of its
                weights and those of its heads.
            source: names the checkpoint in errors.

        Raises:
            CheckpointError: it is of a kind that does not suit.
            TypeError: the network has no such parts.
        """
        raise TypeError(f"{cls.__name__} must define `adopt_part`.")

    @classmethod
    def word_vectors(cls, values: Mapping[str, Any]):
        """Returns the vectors of single words (V, D) among the weights {name: array} of this network; None if it has none."""
        return None

    @classmethod
    def from_config(cls, config):
        return cls(cls.config_class.from_json(config["config"]))

    def build(self, input_shape):
        """Creates nothing: layers create their weights when they are first called (`xmodels.layers.layer`)."""

    def build_from_config(self, config):
        """Creates all weights before Keras loads them. The shapes that Keras saved in `config` are not needed."""
        self.initialize()

    def summarize(self, features, training=None) -> dict:
        """Returns the outputs of a call that describe the whole text; `sequence_output` may be missing."""
        return self(features, training=training)

    def hidden_states(self, features, training=None) -> list:
        """Returns the states of all tokens layer by layer, (B, L, D) each. The last one is the `sequence_output` of a call; here it
        is the only one."""
        return [self(features, training=training)["sequence_output"]]

    def attention_scores(self, features, states) -> list:
        """Returns what the softmax of the attention of each layer reads, float32 (B, H, L, L); [] for networks without such scores.

        Args:
            states: of `hidden_states` for these features.
        """
        return []

    def initialize(self) -> "Backbone":
        """Creates all weights by calling the network on a tiny batch. Returns itself."""
        self(self.tiny_batch())
        return self

    def tiny_batch(self) -> dict:
        """Returns a batch of one text of two tokens: the features of `reads`."""
        shapes = {name: (1, 2, *filter(None, feature.shape[1:])) for name, feature in self.reads.items()}
        features = {name: keras.ops.ones(shapes[name], dtype=feature.dtype) for name, feature in self.reads.items()}
        return {n: keras.ops.zeros_like(value) if n.endswith("_ids") else value for n, value in features.items()}


def named_weights(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns all variables of a built layer, named by the attributes that lead to them, such as `blocks.0.mixer.query.kernel`.

    Unlike Keras' paths, the names do not depend on the order in which layers are called, so they identify a weight in a checkpoint.

    Raises:
        AssertionError: no public attribute leads to a weight.
    """
    found: dict[str, Any] = {}
    _collect(layer, "", found, set())
    missed = [v.path for v in layer.weights if not any(v is known for known in found.values())]
    if missed:
        raise AssertionError(f"{type(layer).__name__} holds weights that no public attribute leads to: {missed}")
    return found


def _collect(layer, prefix: str, found: dict[str, Any], seen: set[int]) -> None:
    if id(layer) in seen:
        return  # a shared layer is stored once, under the first name that leads to it
    seen.add(id(layer))
    children = _children(layer)
    below = {id(v) for _, child in children for v in child.weights}
    for variable in layer.weights:
        if id(variable) not in below:
            found[f"{prefix}{variable.name}"] = variable
    for name, child in children:
        _collect(child, f"{prefix}{name}.", found, seen)


def sublayers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns all layers below a layer, each once, in the order of `named_weights`."""
    found: dict[int, keras.layers.Layer] = {}
    for _, child in _children(layer):
        if id(child) not in found:
            found |= {id(each): each for each in [child, *sublayers(child)]}
    return list(found.values())


def _children(layer) -> list[tuple[str, keras.layers.Layer]]:
    # PyTorch keeps layers apart from other attributes, such as lists. A layer that is both in a list and an attribute is named by
    # the attribute.
    attributes = {**vars(layer).get("_modules", {}), **vars(layer)}
    return [(name, child) for key, value in attributes.items() for name, child in _layers(key, value)]


def _layers(key: str, value) -> Iterable[tuple[str, keras.layers.Layer]]:
    if key.startswith("_"):
        return
    if isinstance(value, keras.layers.Layer):
        yield key, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if isinstance(item, keras.layers.Layer):
                yield f"{key}.{index}", item
