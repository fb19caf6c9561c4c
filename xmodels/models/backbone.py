"""What all networks share: a frozen configuration, a constructor from it, and named weights."""

import dataclasses
import types
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import keras

from data_pipelines.errors import CheckpointError
from data_pipelines.features import Feature, Features
from xmodels.layers.activations import ACTIVATIONS

# No published network comes near these; they keep a damaged config.json from asking for all memory, or for ever.
LARGEST = 10_000_000  # of a dimension
MOST = 1_000  # layers, heads, segments and whatever else a field counts by `num_...`
LARGEST_TABLE = 2**32  # numbers of a table or matrix, such as these:
TABLES = (
    ("vocabulary_size", "embedding_dim"),
    ("max_sequence_length", "hidden_dim"),
    ("intermediate_dim", "hidden_dim"),
)
NOTHING: Mapping = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Numbers that every network has. Subclasses add theirs.

    `bounds` are those of fractional numbers that need not lie between 0 and 1, and of whole ones that may be 0, by name;
    `choices` what a text may be.
    `spare_rows` says whether there may be more rows of tokens than tokens, as in T5's released networks.
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
        """The width of a row of the table of tokens. Networks of which it is another have a field of this name."""
        return self.hidden_dim

    def suits(self, num_tokens: int) -> bool:
        """Whether it can be the network of a vocabulary of so many tokens."""
        return num_tokens == self.vocabulary_size or (self.spare_rows and num_tokens < self.vocabulary_size)

    def keys_per_query(self, length: int) -> int:
        """With how many tokens of a text its attention compares each: with all."""
        return length

    @property
    def states_carried(self) -> int:
        """The states of each layer that are carried from segment to segment: none, unless the network has a memory."""
        return 0

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary, the inverse of `from_json`."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(self).items()}

    @classmethod
    def from_json(
        cls, values: dict[str, Any], source: str = "config.json", spelled: Mapping[str, str] = NOTHING
    ) -> "ModelConfig":
        """Builds a configuration from untrusted values.

        Args:
            spelled: our name -> that of the file, where it is another.

        Raises:
            CheckpointError: a key is unknown or missing, or a number is out of bounds.
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
        """What a value should be and is not; None where it fits."""
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
    """The beginning of a value. Whole numbers of thousands of digits have no decimal form in Python."""
    try:
        return f"{value!r:.40}"
    except ValueError:
        return "a number of thousands of digits"


def _first(names: list[str], most: int = 8) -> str:
    """The first names, and how many more there are."""
    return (", ".join(names[:most]) or "none") + (f" and {len(names) - most} more" if len(names) > most else "")


class Backbone(keras.Model):
    """A network that is rebuilt from its configuration alone.

    Subclasses set `config_class` and `reads`, take `config` as their first argument, and return a dictionary with
    `sequence_output` (B, L, D) and, where they have one, `pooled_output` (B, D).
    """

    config_class: ClassVar[type[ModelConfig]] = ModelConfig
    sparse_tables: ClassVar[tuple[str, ...]] = ()  # weights, by `named_weights`, of which a batch reads few rows
    any_length: ClassVar[bool] = False  # does it read rows longer than `max_sequence_length`?
    encodes: ClassVar[bool] = False  # does it have `encode`, which reads a text without writing another?
    from_labels: ClassVar[bool] = False  # is it trained on labelled texts, from random weights, by no system?
    carries_memory: ClassVar[bool] = False  # does it carry a memory from segment to segment, as Transformer-XL?
    reads: ClassVar[Features] = {"token_ids": Feature((None,)), "padding_mask": Feature((None,), "bool")}
    may_read: ClassVar[Features] = {}  # with `pack_ids`, it reads rows of several examples, as `ops.packing` makes them

    def __init__(self, config: ModelConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config

    @property
    def rewinds(self) -> bool:
        """Whether `decode` may go back to an earlier position of its texts, and read other tokens there."""
        return not self.carries_memory

    @property
    def shares_past(self) -> bool:
        """Whether `decode` reads the next tokens of several beams that share the past of their text, `attention.places.Beams`."""
        return False

    def get_config(self):
        return {"config": self.config.to_json()}

    @property
    def passes(self) -> list:
        """The layers in the order in which they are applied, of a network that is `embed`, these layers, and nothing behind them but
        a pooler: each maps (B, L, D), the states of all tokens, to such states, (x, visible=..., training=...). Else empty."""
        return []

    @classmethod
    def adopt(
        cls, model: str, config: ModelConfig, values: Mapping[str, Any]
    ) -> tuple[str, ModelConfig, Mapping[str, Any]]:
        """The configuration and weights of another network as those of this one, where it may begin as that one; by default
        nothing changes.

        Args:
            model: the file of the other network in `xmodels/models`.
            values: {name: array} of its weights and heads.
        """
        return model, config, values

    @classmethod
    def from_config(cls, config):
        return cls(cls.config_class.from_json(config["config"]))

    def build(self, input_shape):
        """Creates nothing: layers create their weights when they are first called (`xmodels.layers.layer`)."""

    def build_from_config(self, config):
        """Creates all weights before Keras loads them; the shapes that it kept do not matter."""
        self.initialize()

    def summarize(self, features, training=None) -> dict:
        """What a call returns, perhaps without what only the states of single tokens need."""
        return self(features, training=training)

    def hidden_states(self, features) -> list:
        """The states of all tokens, layer by layer: tensors (B, L, D), of which the last one is what a call returns. Networks that
        show no others have that one."""
        return [self(features)["sequence_output"]]

    def initialize(self) -> "Backbone":
        """Creates all weights by calling the network on a tiny batch. Returns itself."""
        self(self.tiny_batch())
        return self

    def tiny_batch(self) -> dict:
        """One text of two tokens."""
        features = {name: keras.ops.ones((1, 2), dtype=feature.dtype) for name, feature in self.reads.items()}
        return {n: keras.ops.zeros_like(value) if n.endswith("_ids") else value for n, value in features.items()}


def named_weights(layer: keras.layers.Layer) -> dict[str, Any]:
    """All variables of a built layer by the attributes that lead to them, such as `blocks.0.mixer.query.kernel`.

    Unlike Keras' paths the names do not depend on who called whom first, so they identify a weight in a checkpoint.
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
    # PyTorch keeps layers apart from other attributes, such as lists. What a list shares with an attribute has the attribute's name.
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
