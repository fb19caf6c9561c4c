"""The configurations of networks: frozen dataclasses, checked when they are read from a file.

`Config` reads and writes JSON, and says how long rows may be. A network's configuration has only sizes that the network has: a
`TokenConfig` a vocabulary and a width, a `LayersConfig` also layers, an `AttentionConfig` also heads and a largest length.
(`TransformerConfig` is the configuration of the network in `transformer.py`.)
"""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, ClassVar

from data_pipelines.errors import CheckpointError
from data_pipelines.features import CHARACTERS
from xmodels.layers.activations import ACTIVATIONS

# Far above any published network, so that a damaged config.json does not exhaust the memory or run forever.
LARGEST = 10_000_000  # of a dimension
MOST = 1_000  # of fields named `num_...`: layers, heads, segments, ...
LARGEST_TABLE = 2**32  # entries of a table or matrix
LONGEST_ROW = 65_536  # tokens; for those who need a limit where the network has none
NOTHING: Mapping = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Config:
    """Fields with bounds, as JSON. Subclasses are frozen dataclasses.

    Class attributes:
        bounds: {field: (lowest, highest)} of float fields that are not limited to 0 to 1, and of int fields that may be 0 or
            have other limits than `MOST` and `LARGEST`.
        choices: {field: allowed values} of string fields.
        retired: keys of earlier versions, which `from_json` accepts and ignores.
        of_no_weight: int fields on which no weight depends, so that other values can start from the same weights.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"activation": tuple(ACTIVATIONS)}
    retired: ClassVar[frozenset[str]] = frozenset()
    of_no_weight: ClassVar[frozenset[str]] = frozenset()

    @property
    def longest(self) -> int | None:
        """The most tokens, or other elements, that a row of the network may have; None if there is no limit."""
        return None

    def reads(self, length: int) -> bool:
        """Returns whether the network reads rows of `length` tokens."""
        return self.longest is None or length <= self.longest

    def cut(self, length: int) -> int:
        """Returns `length`, or the most tokens that the network reads if these are fewer."""
        return length if self.longest is None else min(length, self.longest)

    @property
    def states_carried(self) -> int:
        """The number of states of each layer that are carried from segment to segment; 0 unless the network has a memory."""
        return 0

    def kept_bytes(self, length: int, rematerialize: bool = False) -> int:
        """Returns the bytes that a training step keeps for each element of a row, as in `TokenConfig`."""
        raise TypeError(f"{type(self).__name__} must define `kept_bytes`.")

    def holds(self, num_tokens: int) -> bool:
        """Returns whether a trained network may belong to a vocabulary of `num_tokens` tokens; without words to an empty one only."""
        return num_tokens == 0

    def values(self) -> dict[str, Any]:
        """Returns {name: value} of all fields, for comparisons."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def to_json(self) -> dict[str, Any]:
        """Returns a plain dictionary, the inverse of `from_json`."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in self.values().items()}

    def with_values(self, values: Mapping[str, Any], source: str):
        """Returns this configuration with other values of some fields, checked as those of a file `source`."""
        return type(self).from_json({**self.to_json(), **values}, source)

    @classmethod
    def settings(cls) -> dict[str, Any]:
        """Returns {name: type} of the fields that `--set=NAME=VALUE` can change: all but the size of the vocabulary. Those of
        earlier versions are accepted and change nothing."""
        fields = {field.name: field.type for field in dataclasses.fields(cls) if field.name != "vocabulary_size"}
        return dict.fromkeys(sorted(cls.retired), float) | fields

    @classmethod
    def from_json(cls, values: dict[str, Any], source: str = "config.json", spelled: Mapping[str, str] = NOTHING):
        """Builds a configuration from untrusted values.

        Args:
            values: {field: value}.
            source: the file, for messages.
            spelled: {our name: name in the file} of fields whose names differ, for messages.

        Raises:
            CheckpointError: a key is unknown or missing, or a value has the wrong type or is out of bounds.
        """
        values = {name: value for name, value in values.items() if name not in cls.retired}
        check_fields(cls, values, source, spelled)
        config = cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
        config.check(source, spelled)
        return config

    def check(self, source: str, spelled: Mapping[str, str] = NOTHING) -> None:
        """Raises a CheckpointError where fields do not go together. Arguments as in `from_json`."""

    def _check_heads(self, source: str, spelled: Mapping[str, str]) -> None:
        if self.hidden_dim % self.num_heads:
            raise CheckpointError(
                f"{source}: `{spelled.get('hidden_dim', 'hidden_dim')}` must be a multiple of "
                f"`{spelled.get('num_heads', 'num_heads')}`, so that every head gets the same width. Found: "
                f"{self.hidden_dim} and {self.num_heads}."
            )

    def _check_filters(self, source: str) -> None:
        if not self.filter_widths or len(self.filter_widths) != len(self.num_filters):
            raise CheckpointError(
                f"{source}: `filter_widths` and `num_filters` must have a number for each convolution. Found: "
                f"{list(self.filter_widths)} and {list(self.num_filters)}."
            )
        if max(self.filter_widths) > CHARACTERS:
            raise CheckpointError(
                f"{source}: `filter_widths` must be at most {CHARACTERS}, the characters of a word. Found: {max(self.filter_widths)}."
            )

    def _check_table(self, rows: str, columns: str, source: str, spelled: Mapping[str, str]) -> None:
        if getattr(self, rows) * getattr(self, columns) > LARGEST_TABLE:
            raise CheckpointError(
                f"{source}: `{spelled.get(rows, rows)}` times `{spelled.get(columns, columns)}` must be at most "
                f"{LARGEST_TABLE:,}. Found: {getattr(self, rows):,} times {getattr(self, columns):,}."
            )


@dataclasses.dataclass(frozen=True)
class TokenConfig(Config):
    """What every network over tokens has: a vocabulary and the width of its states.

    Class attributes:
        spare_rows: whether the embedding may have more rows than the vocabulary has tokens, as in T5's released networks.
        fewest_regular_layers: each layer more than these adds the same number of weights.
    """

    spare_rows: ClassVar[bool] = False
    fewest_regular_layers: ClassVar[int] = 1

    vocabulary_size: int
    hidden_dim: int

    @property
    def embedding_dim(self) -> int:
        """The width of the token embedding. Networks where it differs from `hidden_dim` have a field of this name."""
        return self.hidden_dim

    def suits(self, num_tokens: int) -> bool:
        """Returns whether a network of this configuration fits a vocabulary of `num_tokens` tokens."""
        return num_tokens == self.vocabulary_size or (self.spare_rows and num_tokens < self.vocabulary_size)

    def holds(self, num_tokens: int) -> bool:
        """Returns whether a trained network may belong to a vocabulary of `num_tokens` tokens: as `suits`, or its table was
        filled up.

        Tables are filled up to a multiple of 8 to 128 rows (NVIDIA's BERT, `pad_to_multiple_of`); those of dbmdz's Italian BERT have
        1,000 rows too many.
        """
        spare = self.vocabulary_size - num_tokens
        filled_up = self.vocabulary_size % 8 == 0 and 0 < spare < 128
        return self.suits(num_tokens) or filled_up or spare == 1000

    def kept_bytes(self, length: int, rematerialize: bool = False) -> int:
        """Returns the bytes that a training step keeps for each token in float32, for estimates before anything is built.

        By default three numbers per dimension: the states, their gradient and a copy.

        Args:
            length: tokens of a row.
            rematerialize: whether layers are computed again, so that only their inputs and one of them are kept.
        """
        return 12 * self.hidden_dim

    def check(self, source, spelled=NOTHING):
        self._check_table("vocabulary_size", "embedding_dim", source, spelled)


@dataclasses.dataclass(frozen=True)
class LayersConfig(TokenConfig):
    """A network of layers of one width without attention, such as stacked LSTMs. Rows may have any length."""

    num_layers: int = 1
    dropout: float = 0.1

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `TokenConfig`; eight numbers per dimension and layer, those of an LSTM (`layers.complexity`)."""
        return 32 * self.hidden_dim * self.num_layers

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        self._check_table("hidden_dim", "hidden_dim", source, spelled)


@dataclasses.dataclass(frozen=True)
class AttentionConfig(TokenConfig):
    """The sizes that every Transformer has: layers of attention and feed-forward networks, over rows of a largest length."""

    num_layers: int
    num_heads: int
    intermediate_dim: int
    max_sequence_length: int = 512
    dropout: float = 0.1

    @property
    def longest(self):
        return self.max_sequence_length

    def keys_per_query(self, length: int) -> int:
        """Returns the number of keys that each query is compared with, for estimates of memory; by default all tokens."""
        return length

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `TokenConfig`, by the count of Korthikanti et al., 2022 (arXiv 2205.05198, section 4.1).

        Per layer 35 bytes for each of `hidden_dim`, 8 for each of `intermediate_dim`, and 9 per head and compared token: two
        values and a dropout mask.
        """
        token = 35 * self.hidden_dim + 8 * self.intermediate_dim
        pairs = 9 * self.num_heads * self.keys_per_query(length)
        if rematerialize:
            return token + pairs + 4 * self.num_layers * self.hidden_dim
        return self.num_layers * (token + pairs)

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        self._check_table("max_sequence_length", "hidden_dim", source, spelled)
        self._check_table("intermediate_dim", "hidden_dim", source, spelled)

    @classmethod
    def from_json(cls, values, source="config.json", spelled=NOTHING):
        """Works as in `Config`; heads for which no width is given must divide `hidden_dim`."""
        config = super().from_json(values, source, spelled)
        if values.get("head_dim") is None:
            config._check_heads(source, spelled)
        return config


def check_fields(
    kind: type, values: Mapping[str, Any], source: str, spelled: Mapping[str, str] = NOTHING, prefix: str = ""
) -> None:
    """Raises a CheckpointError unless `values` are fields of the dataclass `kind`, with types and sizes as it says.

    Args:
        kind: has `bounds` and `choices`, as a `Config`.
        source, spelled: as in `Config.from_json`.
        prefix: before the names in messages.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}
    unknown = sorted(prefix + name for name in set(values) - set(fields))
    missing = sorted(
        prefix + name for name, field in fields.items() if name not in values and field.default is dataclasses.MISSING
    )
    if unknown or missing:
        raise CheckpointError(
            f"{source}: not a {kind.__name__}. Unknown keys: {_first(unknown)}; missing keys: {_first(missing)}."
        )
    for name, value in values.items():
        if expected := _misfit(kind, name, fields[name].type, value):
            shown = spelled.get(name, prefix + name)
            raise CheckpointError(f"{source}: `{shown}` must be {expected}. Found: {_short(value)}.")


def _misfit(kind: type, name: str, wanted: Any, value: Any) -> str | None:
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
        low, high = kind.bounds.get(name, (1, MOST if name.startswith("num_") else LARGEST))
        return None if type(value) is int and low <= value <= high else f"a whole number from {low} to {high}"
    if wanted is float:
        low, high = kind.bounds.get(name, (0, 1))
        return None if type(value) in (int, float) and low <= value <= high else f"a number from {low} to {high}"
    if wanted is str:
        known = kind.choices.get(name)
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
