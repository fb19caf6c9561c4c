"""The base classes of layers that mix tokens, such as attention, and their lookup by name.

Each file of `layers/attention` that defines a `Mixer` is one. To add a mixer, add a file; `Bert`, `Gpt` and others take it by name.
"""

import dataclasses
import functools
import importlib
import pkgutil
from typing import Any, ClassVar

from keras import ops

from xmodels.layers import attention
from xmodels.layers.attention.core import head_dim_of, merge_heads, split_heads
from xmodels.layers.attention.visible import Visible
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import Initialization
from xmodels.layers.layer import Layer

DEFAULT = "multi_head"


@dataclasses.dataclass(frozen=True)
class Numbers:
    """The numbers of a mixer, the same in all blocks: `--set=mixer.NAME=VALUE`, and `mixer.NAME` in config.json.

    Subclasses are frozen dataclasses whose fields are made by `number`.

    Class attributes:
        bounds, choices, of_no_weight: as in `models.config.Config`.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {}
    of_no_weight: ClassVar[frozenset[str]] = frozenset()


def number(default: Any, help: str) -> Any:
    """Returns a field of `Numbers`; `--help` shows its default and its help, which it reads from the file without importing it."""
    return dataclasses.field(default=default, metadata={"help": help})


class Mixer(Layer):
    """Lets tokens exchange information.

    Subclasses define `call`, and what else they support. Attention with projections derives from `ProjectedMixer`.

    Class attributes:
        numbers: the dataclass of its own numbers.
        supports: the fields of `Visible` that the mixer supports. It raises an error if others are set.
        requires: those of them that must be set, such as `causal` where no other form is defined.
        selects: whether the contents of tokens decide which others they take from.
        rewinds: whether `step` may go back to an earlier position and read other tokens there.
        shares_past: whether `step` supports beams that share a past, `attention.places.Beams`.
        places_texts: whether `step` supports texts that are at different positions, `attention.places.Beams` with a position of each.
        starts_from_attention: whether it has all weights of full attention, under the same names.
        copies: {own layer: layer of full attention} whose weights it begins with where a trained network gets this mixer.
        compares_all: whether it keeps a number for every two tokens of a text.
        has_global_tokens: whether the tokens that `Visible.global_ids` marks attend to all others, and all to them.
        has_probabilities: whether `probabilities` returns what sums to one over the keys of each query.

    Call arguments:
        x: (B, L, D).
        visible: a `Visible`, which tokens a token may take from; by default all.
        context: (B, S, D), the tokens to take from; by default `x`. Where `visible` depends on positions, `x` holds the first L
            tokens.

    Returns:
        (B, L, D)
    """

    numbers: ClassVar[type[Numbers]] = Numbers
    supports: ClassVar[frozenset[str]] = frozenset()
    requires: ClassVar[frozenset[str]] = frozenset()
    selects: ClassVar[bool] = False
    rewinds: ClassVar[bool] = True
    shares_past: ClassVar[bool] = False
    places_texts: ClassVar[bool] = False
    starts_from_attention: ClassVar[bool] = True
    copies: ClassVar[dict[str, str]] = {}
    compares_all: ClassVar[bool] = False
    has_global_tokens: ClassVar[bool] = False
    has_probabilities: ClassVar[bool] = True

    @classmethod
    def for_block(cls, config, initialization: Initialization, index: int = 0, shared: dict | None = None) -> "Mixer":
        """Returns the mixer of a block. (Keras has another method named `build`.)

        Args:
            config: of the network; `config.mixer_numbers` is an instance of `numbers`.
            initialization: of the kernels.
            index: the number of the block.
            shared: kept by the network for all of its blocks; a mixer puts layers there that the mixers of other blocks use too.

        Raises:
            TypeError: the subclass does not define it.
        """
        raise TypeError(f"{cls.__name__} must define `for_block`.")

    @classmethod
    def keys_per_query(cls, config, length: int) -> int:
        """Returns the number of keys that each query is compared with, for estimates of memory. Override it if that is not all."""
        return length

    def supported(self, visible: Visible | None) -> Visible:
        """Returns `visible`, or an empty `Visible` for None. Raises a ValueError if this mixer does not support one of its fields, or
        requires one that is not set."""
        visible = visible or Visible()
        check_supports(type(self), visible.given())
        return visible

    def reach(self, length: int):
        """Returns from which tokens of a text each token may take by their places: bool (H or 1, L, L); None for all.

        The tokens that `visible` excludes are excluded from these too.
        """
        return None

    def probabilities(self, x, visible=None):
        """Returns how much each token takes of each other, float32 (B, H, L, L), for pictures, and for tests as a reference."""
        raise TypeError(f"{type(self).__name__} must define `probabilities`.")

    @property
    def has_scores(self) -> bool:
        """Whether it has `scores`."""
        return False

    def scores(self, x, visible=None):
        """Returns the scores whose softmax over the keys are the `probabilities`, float32 (B, H, L, L), with a gradient; far below all
        others where a query may not attend to a key (`attention.core.HIDDEN`)."""
        raise TypeError(f"{type(self).__name__} must define `scores`.")

    def explicit(self, x, visible=None):
        """Returns what `call` returns, computed as the definition says and at any cost, as a reference for tests."""
        raise TypeError(f"{type(self).__name__} must define `explicit`.")

    def start(self, batch, length: int):
        """Returns the initial `past` of `step`, for texts of at most `length` tokens: nested tensors whose first axis is the batch."""
        raise TypeError(f"{type(self).__name__} must define `start`.")

    def step(self, x, past, place):
        """Mixes the next L tokens of texts, each of which attends to itself and the tokens before it.

        Args:
            x: (B, L, D), the tokens from position `place` on.
            past: the result of `start` or of the previous call.
            place: int, the position of the first token; or `attention.places.Beams`.

        Returns:
            (B, L, D), and `past` updated with these tokens.
        """
        raise TypeError(f"{type(self).__name__} must define `step`.")


class ProjectedMixer(Mixer):
    """Projects to queries, keys and values of H heads, mixes them with `mix`, and projects back with `merge`.

    Subclasses define `mix`. They share these weights, so that one mixer can continue from the weights of another.

    Args:
        num_heads: H.
        hidden_dim: D.
        dropout: of the attention probabilities, in mixers that have them.
        initialization: of the kernels.
        use_bias: whether the projections have biases.
        head_dim: K; by default `hidden_dim` / `num_heads`.
    """

    def __init__(
        self, num_heads: int, hidden_dim: int, dropout: float = 0.0, initialization: Initialization | None = None,
        use_bias: bool = True, head_dim: int | None = None, **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        self.num_heads, self.head_dim = num_heads, head_dim or head_dim_of(hidden_dim, num_heads)
        initialization = initialization or Initialization()
        self.query, self.key, self.value = (
            split_heads(num_heads, self.head_dim, name, initialization, use_bias) for name in ("query", "key", "value")
        )
        self.merge = merge_heads(hidden_dim, initialization, use_bias)
        self.dropout = Dropout(dropout)

    @classmethod
    def for_block(cls, config, initialization, index=0, shared=None):
        """Works as in `Mixer`. The numbers of the mixer are arguments of the same names."""
        numbers = {field.name: getattr(config.mixer_numbers, field.name) for field in dataclasses.fields(cls.numbers)}
        return cls(config.num_heads, config.hidden_dim, config.attention_dropout, initialization, **numbers)

    def call(self, x, visible=None, context=None, training=None):
        return self.attend_to(x, self.project(x if context is None else context), visible, training)

    def project(self, x):
        """Returns the keys and values of x: (B, S, D) -> (B, S, H, K) each."""
        return self.key(x), self.value(x)

    def attend_to(self, x, projected, visible=None, training=None):
        """Attends from x (B, L, D) to `projected`, the keys and values that `project` returns: (B, L, D)."""
        return self.merge(self.mix(self.query(x), *projected, self.supported(visible), training))

    @property
    def has_scores(self) -> bool:
        own = type(self)  # mixers with `probabilities` of their own may inherit `scores` that are not theirs
        return own.probabilities is ProjectedMixer.probabilities and own.scores is not Mixer.scores

    def probabilities(self, x, visible=None):
        return ops.softmax(self.scores(x, visible), axis=-1)

    def mix(self, query, key, value, visible: Visible, training=None):
        """Mixes the values by queries and keys: (B, L, H, K), (B, S, H, K) and (B, S, H, K) -> (B, L, H, K)."""
        raise TypeError(f"{type(self).__name__} must define `mix`.")

    def explicit(self, x, visible=None):
        """Works as in `Mixer`, from `probabilities`."""
        return self.merge(ops.einsum("bhls,bshk->blhk", self.probabilities(x, visible), self.value(x)))


def names() -> list[str]:
    """Returns the names of all mixers, which are those of their files."""
    return sorted(module.name for module in pkgutil.iter_modules(attention.__path__) if _class_of(module.name))


def find(name: str) -> type[Mixer]:
    """Returns the mixer that `layers/attention/<name>.py` defines. Raises a ValueError that lists the known names."""
    found = _class_of(name) if name in {module.name for module in pkgutil.iter_modules(attention.__path__)} else None
    if found is None:
        raise ValueError(f"Unknown mixer {name!r}. Known: {', '.join(names())}.")
    return found


@functools.cache
def _class_of(name: str) -> type[Mixer] | None:
    module = importlib.import_module(f"{attention.__name__}.{name}")
    return next(
        (c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Mixer) and c.__module__ == module.__name__),
        None,
    )  # fmt: skip


def check_supports(mixer: type[Mixer], required: frozenset[str]) -> None:
    """Raises a ValueError unless a mixer supports all these fields of `Visible`, and requires no others."""
    missing = sorted(required - mixer.supports)
    if missing:
        raise ValueError(
            f"{mixer.__name__} does not support {', '.join(f'`{name}`' for name in missing)} of `Visible`; it supports "
            f"{', '.join(sorted(mixer.supports))}. Mixers that do: {_names_for(required)}."
        )
    if unset := sorted(mixer.requires - required):
        raise ValueError(
            f"{mixer.__name__} requires {', '.join(f'`{name}`' for name in unset)} of `Visible`; set here: "
            f"{', '.join(sorted(required)) or 'none'}. Mixers that do not: {_names_for(required)}."
        )


def _names_for(required: frozenset[str]) -> str:
    """Returns the names of the mixers of a network that sets these fields, for messages; it imports all mixers."""
    return ", ".join(name for name in names() if find(name).requires <= required <= find(name).supports)


def mixer_for(
    config, initialization: Initialization, required: frozenset[str], index: int = 0, shared: dict | None = None
) -> Mixer:
    """Returns the mixer that `config.mixer` names.

    Args:
        config: has `mixer`, `mixer_numbers`, `num_heads`, `hidden_dim`, `attention_dropout`, and the sizes that the mixer needs.
        initialization, index, shared: as in `Mixer.for_block`.
        required: the fields of `Visible` that the network sets for every batch.

    Raises:
        ValueError: the mixer is unknown or does not support a required field.
    """
    mixer = find(config.mixer)
    check_supports(mixer, required)
    return mixer.for_block(config, initialization, index, shared)
