"""The base classes of all networks: a frozen configuration, a network built from it, and named weights."""

import dataclasses
import types
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import keras

from data_pipelines.errors import CheckpointError
from data_pipelines.features import Feature, Features
from xmodels.layers.activations import ACTIVATIONS

# Far above any published network, so that a damaged config.json does not exhaust the memory or run forever.
LARGEST = 10_000_000  # of a dimension
MOST = 1_000  # of fields named `num_...`: layers, heads, segments, ...
LARGEST_TABLE = 2**32  # entries of a table or matrix, such as these:
TABLES = (
    ("vocabulary_size", "embedding_dim"),
    ("max_sequence_length", "hidden_dim"),
    ("intermediate_dim", "hidden_dim"),
)
NOTHING: Mapping = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The sizes that every network has. Subclasses add theirs.

    Class attributes:
        bounds: {field: (lowest, highest)} of float fields that are not limited to 0 to 1, and of int fields that may be 0 or
            have other limits than `MOST` and `LARGEST`.
        choices: {field: allowed values} of string fields.
        spare_rows: whether the embedding may have more rows than the vocabulary has tokens, as in T5's released networks.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"activation": tuple(ACTIVATIONS)}
    spare_rows: ClassVar[bool] = False

    vocabulary_size: int
    hidden_dim: int
    num_layers: int
    num_heads: int
    intermediate_dim: int
    max_sequence_length: int = 512
    dropout: float = 0.1

    @property
    def embedding_dim(self) -> int:
        """The width of the token embedding. Networks where it differs from `hidden_dim` have a field of this name."""
        return self.hidden_dim

    def suits(self, num_tokens: int) -> bool:
        """Whether a network of this configuration fits a vocabulary of `num_tokens` tokens."""
        return num_tokens == self.vocabulary_size or (self.spare_rows and num_tokens < self.vocabulary_size)

    def keys_per_query(self, length: int) -> int:
        """Returns the number of keys that each query is compared with, for estimates of memory; by default all tokens."""
        return length

    @property
    def states_carried(self) -> int:
        """The number of states of each layer that are carried from segment to segment; 0 unless the network has a memory."""
        return 0

    def to_json(self) -> dict[str, Any]:
        """Returns a plain dictionary, the inverse of `from_json`."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(self).items()}

    @classmethod
    def from_json(
        cls, values: dict[str, Any], source: str = "config.json", spelled: Mapping[str, str] = NOTHING
    ) -> "ModelConfig":
        """Builds a configuration from untrusted values.

        Args:
            values: {field: value}.
            source: the file, for messages.
            spelled: {our name: name in the file} of fields whose names differ, for messages.

        Raises:
            CheckpointError: a key is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        fields = {field.name: field for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - set(fields))
        missing = sorted(
            name for name, field in fields.items() if name not in values and field.default is dataclasses.MISSING
        )
        if unknown or missing:
            raise CheckpointError(
                f"{source}: not a {cls.__name__}. Unknown keys: {_first(unknown)}; missing keys: {_first(missing)}."
            )
        for name, value in values.items():
            if expected := cls._misfit(name, fields[name].type, value):
                raise CheckpointError(
                    f"{source}: `{spelled.get(name, name)}` must be {expected}. Found: {_short(value)}."
                )
        config = cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
        for rows, columns in TABLES:
            if getattr(config, rows) * getattr(config, columns) > LARGEST_TABLE:
                raise CheckpointError(
                    f"{source}: `{spelled.get(rows, rows)}` times `{spelled.get(columns, columns)}` must be at most "
                    f"{LARGEST_TABLE:,}. Found: {getattr(config, rows):,} times {getattr(config, columns):,}."
                )
        if values.get("head_dim") is None and config.hidden_dim % config.num_heads:
            raise CheckpointError(
                f"{source}: `{spelled.get('hidden_dim', 'hidden_dim')}` must be a multiple of "
                f"`{spelled.get('num_heads', 'num_heads')}`, so that every head gets the same width. Found: "
                f"{config.hidden_dim} and {config.num_heads}."
            )
        return config

    @classmethod
    def _misfit(cls, name: str, wanted: Any, value: Any) -> str | None:
        """Describes what a value should be; None if it fits."""
        if wanted == int | None:
            if value is None:
                return None
            wanted = int
        if wanted == tuple[int, ...]:
            fits = isinstance(value, list | tuple) and all(type(x) is int and 0 < x <= LARGEST for x in value)
            return None if fits else "a list of whole numbers"
        if wanted is bool:
            return None if isinstance(value, bool) else "true or false"
        if wanted is int:
            low, high = cls.bounds.get(name, (1, MOST if name.startswith("num_") else LARGEST))
            return None if type(value) is int and low <= value <= high else f"a whole number from {low} to {high}"
        if wanted is float:
            low, high = cls.bounds.get(name, (0, 1))
            return None if type(value) in (int, float) and low <= value <= high else f"a number from {low} to {high}"
        if wanted is str:
            known = cls.choices.get(name)
            if not isinstance(value, str) or (known and value not in known):
                return f"one of {', '.join(known)}" if known else "a string"
        return None


def _short(value: Any) -> str:
    """Returns the beginning of a value. Python refuses to print integers with thousands of digits."""
    try:
        return f"{value!r:.40}"
    except ValueError:
        return "a number of thousands of digits"


def _first(names: list[str], most: int = 8) -> str:
    """Lists the first names, and how many more there are."""
    return (", ".join(names[:most]) or "none") + (f" and {len(names) - most} more" if len(names) > most else "")


class Backbone(keras.Model):
    """A network that can be rebuilt from its configuration alone.

    Subclasses set `config_class` and `reads`, take `config` as their first argument, and return a dictionary with
    `sequence_output` (B, L, D) and, if they have one, `pooled_output` (B, D).
    """

    config_class: ClassVar[type[ModelConfig]] = ModelConfig
    # Weights of which a batch reads few rows, by their names in `named_weights`.
    sparse_tables: ClassVar[tuple[str, ...]] = ()
    any_length: ClassVar[bool] = False  # rows may be longer than `max_sequence_length`
    encodes: ClassVar[bool] = False  # it has a method `encode`, which encodes a source without a target
    from_labels: ClassVar[bool] = False  # trained on labelled texts from random weights, without a pretraining system
    carries_memory: ClassVar[bool] = False  # carries a memory from segment to segment, like Transformer-XL
    reads: ClassVar[Features] = {"token_ids": Feature((None,)), "padding_mask": Feature((None,), "bool")}
    may_read: ClassVar[Features] = {}  # optional features; with `pack_ids`, it reads packed rows (`ops.packing`)

    def __init__(self, config: ModelConfig, **kwargs):
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
        cls, model: str, config: ModelConfig, values: Mapping[str, Any]
    ) -> tuple[str, ModelConfig, Mapping[str, Any]]:
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

    def hidden_states(self, features) -> list:
        """Returns the states of all tokens layer by layer, (B, L, D) each. The last one is the `sequence_output` of a call; here it
        is the only one."""
        return [self(features)["sequence_output"]]

    def initialize(self) -> "Backbone":
        """Creates all weights by calling the network on a tiny batch. Returns itself."""
        self(self.tiny_batch())
        return self

    def tiny_batch(self) -> dict:
        """Returns a batch of one text of two tokens: the features of `reads`."""
        features = {name: keras.ops.ones((1, 2), dtype=feature.dtype) for name, feature in self.reads.items()}
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
    # PyTorch keeps layers apart from other attributes, such as lists. A layer that is both in a list and an attribute is named by
    # the attribute.
    attributes = {**vars(layer).get("_modules", {}), **vars(layer)}
    children = [(name, child) for key, value in attributes.items() for name, child in _layers(key, value)]
    below = {id(v) for _, child in children for v in child.weights}
    for variable in layer.weights:
        if id(variable) not in below:
            found[f"{prefix}{variable.name}"] = variable
    for name, child in children:
        _collect(child, f"{prefix}{name}.", found, seen)


def _layers(key: str, value) -> Iterable[tuple[str, keras.layers.Layer]]:
    if key.startswith("_"):
        return
    if isinstance(value, keras.layers.Layer):
        yield key, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if isinstance(item, keras.layers.Layer):
                yield f"{key}.{index}", item
