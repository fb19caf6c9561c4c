"""Linformer: attention to keys and values that are mixed down to a fixed number (Wang et al., 2020, arXiv 2006.04768)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.attention.core import attend, attention_probabilities, split_heads
from xmodels.layers.attention.visible import row
from xmodels.layers.initialization import Initialization
from xmodels.layers.layer import Layer
from xmodels.layers.mixers import Numbers, ProjectedMixer, number

NONE, HEADS, KEYS_AND_VALUES, LAYERS = "none", "heads", "keys_and_values", "layers"


@dataclasses.dataclass(frozen=True)
class LinformerNumbers(Numbers):
    """The numbers of `Linformer`; section 4 of the paper has the ways of sharing."""

    choices: ClassVar[dict[str, tuple[str, ...]]] = {"sharing": (NONE, HEADS, KEYS_AND_VALUES, LAYERS)}
    rank: int = number(256, "to how many keys and values those of a text are mixed down")
    sharing: str = number(
        "heads",
        "what shares the mix of positions. none: each head has its own. heads: all heads of a layer. keys_and_values: also keys and "
        "values. layers: also all layers",
    )
    one_head: bool = number(False, "whether all queries share one head of keys and values")
    values_are_keys: bool = number(False, "whether the projected keys are the values too")


class PositionMix(Layer):
    """Mixes S keys and S values down to R each, with weights for each position of a text.

    The weights begin uniform in +-1 / sqrt(R). Shorter texts use the first rows.

    Args:
        max_sequence_length: N, the most positions.
        rank: R.
        num_heads: of heads with weights of their own; None if all share them.
        is_tied: whether values are mixed by the weights of the keys.

    Call arguments:
        key, value: (B, S, H, K) each.

    Returns:
        (B, R, H, K) each.

    Raises:
        ValueError: S is more than N.
    """

    def __init__(self, max_sequence_length: int, rank: int, num_heads: int | None, is_tied: bool, **kwargs):
        super().__init__(**kwargs)
        shape = (max_sequence_length, rank) if num_heads is None else (num_heads, max_sequence_length, rank)
        uniform = keras.initializers.RandomUniform(-(rank**-0.5), rank**-0.5)
        self.max_sequence_length, self.equation = max_sequence_length, "sr" if num_heads is None else "hsr"
        self.keys = self.add_weight(shape=shape, initializer=uniform, name="keys")
        self.values = None if is_tied else self.add_weight(shape=shape, initializer=uniform, name="values")
        self.built = True

    def call(self, key, value):
        of_keys, of_values = self.weights_of(key)
        equation = f"bshk,{self.equation}->brhk"
        return ops.einsum(equation, key, of_keys), ops.einsum(equation, value, of_values)

    def weights_of(self, key):
        """Returns the weights of the positions of keys (B, S, H, K): (S, R) or (H, S, R), of keys and of values."""
        length = key.shape[1]
        if length is not None and length > self.max_sequence_length:
            raise ValueError(
                f"Linformer mixes the positions of texts of at most {self.max_sequence_length} tokens (`max_sequence_length`). "
                f"Received: {length} tokens."
            )
        length = ops.shape(key)[1]
        both = self.keys, self.keys if self.values is None else self.values
        return tuple(ops.cast(weights[..., :length, :], key.dtype) for weights in both)


class Linformer(ProjectedMixer):
    """Softmax attention to R mixed keys, in O(L * R) instead of O(L^2). It has no causal form.

    Padding is zero before it is mixed, so it adds nothing. `probabilities` are weights of the values of a text, softmax(q (E k)) F;
    they may be negative and sum to anything.

    Args:
        mix_positions: a `PositionMix`, which several layers may share.
        one_head, values_are_keys: as in `LinformerNumbers`. Others as in `ProjectedMixer`.
    """

    numbers = LinformerNumbers
    supports = frozenset({"padding"})
    has_probabilities = False

    def __init__(
        self, num_heads: int, hidden_dim: int, dropout: float, initialization: Initialization, mix_positions: PositionMix,
        one_head: bool = False, values_are_keys: bool = False, **kwargs,
    ):  # fmt: skip
        super().__init__(num_heads, hidden_dim, dropout, initialization, **kwargs)
        if one_head:
            self.key, self.value = (split_heads(1, self.head_dim, name, initialization) for name in ("key", "value"))
        if values_are_keys:
            self.value = self.key
        self.mix_positions = mix_positions

    @classmethod
    def for_block(cls, config, initialization, index=0, shared=None):
        numbers = config.mixer_numbers
        is_common = numbers.sharing == LAYERS and shared is not None
        positions = shared.get(cls) if is_common else None
        if positions is None:
            heads = (1 if numbers.one_head else config.num_heads) if numbers.sharing == NONE else None
            is_tied = numbers.sharing in (KEYS_AND_VALUES, LAYERS)
            positions = PositionMix(config.max_sequence_length, numbers.rank, heads, is_tied, name="mix_positions")
            if is_common:
                shared[cls] = positions
        sizes = config.num_heads, config.hidden_dim, config.attention_dropout, initialization
        return cls(*sizes, positions, numbers.one_head, numbers.values_are_keys)

    @classmethod
    def keys_per_query(cls, config, length):
        return min(length, config.mixer_numbers.rank)

    def mix(self, query, key, value, visible, training=None):
        key, value = self.mix_keys_and_values(key, value, visible)
        return attend(query, key, value, dropout=self.dropout, training=training)

    def mix_keys_and_values(self, key, value, visible):
        """Returns R keys and R values for all heads: (B, S, H or 1, K) -> (B, R, H, K) each."""
        if visible.padding is not None:
            real = ops.expand_dims(ops.expand_dims(ops.cast(visible.padding, key.dtype), 2), 3)  # (B, S, 1, 1)
            key, value = key * real, value * real
        return tuple(self.for_all_heads(each) for each in self.mix_positions(key, value))

    def for_all_heads(self, x):
        """Repeats a single head: (B, R, H or 1, K) -> (B, R, H, K)."""
        return x if x.shape[2] == self.num_heads else ops.repeat(x, self.num_heads, axis=2)

    def probabilities(self, x, visible=None):
        visible, (key, value) = self.supported(visible), self.project(x)
        shares = attention_probabilities(
            self.query(x), self.mix_keys_and_values(key, value, visible)[0]
        )  # (B, H, L, R)
        of_values = ops.cast(self.mix_positions.weights_of(value)[1], "float32")
        if len(of_values.shape) == 3:
            of_values = ops.repeat(of_values, self.num_heads // of_values.shape[0], axis=0)  # (H, S, R)
        weights = ops.einsum(f"bhlr,{self.mix_positions.equation}->bhls", shares, of_values)
        return weights if visible.padding is None else weights * ops.cast(row(visible.padding), "float32")
