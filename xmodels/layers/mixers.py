"""The base class of layers that mix tokens, such as attention, and their lookup by name.

Each file of `layers/attention` that defines a `Mixer` is one. To add a mixer, add a file; `Bert`, `Gpt` and others take it by name.
"""

import functools
import importlib
import pkgutil
from typing import ClassVar

from xmodels.layers import attention
from xmodels.layers.attention.core import head_dim_of, merge_heads, split_heads
from xmodels.layers.attention.visible import Visible
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import Initialization
from xmodels.layers.layer import Layer

DEFAULT = "multi_head"


class Mixer(Layer):
    """Projects to queries, keys and values of H heads, mixes them with `mix`, and projects back with `merge`.

    Subclasses define `mix`. They share these weights, so that one mixer can continue from the weights of another.

    Args:
        num_heads: H.
        hidden_dim: D.
        dropout: of the attention probabilities, in mixers that have them.
        initialization: of the kernels.
        use_bias: whether the projections have biases.
        head_dim: K; by default `hidden_dim` / `num_heads`.

    Class attributes:
        honours: the fields of `Visible` that the mixer supports. It raises an error for others.
        rewinds: whether `step` may go back to an earlier position and read other tokens there.
        shares_past: whether `step` supports beams that share a past, `attention.places.Beams`.

    Call arguments:
        x: (B, L, D).
        visible: a `Visible`, which keys the queries may attend to; by default all.
        context: (B, S, D), from which keys and values are computed; by default `x`. Where `visible` depends on positions, the
            queries are taken for the first L tokens.

    Returns:
        (B, L, D)
    """

    honours: ClassVar[frozenset[str]] = frozenset()
    rewinds: ClassVar[bool] = True
    shares_past: ClassVar[bool] = False

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
    def for_network(cls, config, initialization: Initialization) -> "Mixer":
        """Returns a mixer with the sizes of a configuration. Override it in mixers that have other arguments."""
        return cls(config.num_heads, config.hidden_dim, config.attention_dropout, initialization)

    @classmethod
    def keys_per_query(cls, config, length: int) -> int:
        """Returns the number of keys that each query is compared with, for estimates of memory. Override it if that is not all."""
        return length

    def call(self, x, visible=None, context=None, training=None):
        return self.attend_to(x, self.project(x if context is None else context), visible, training)

    def project(self, x):
        """Returns the keys and values of x: (B, S, D) -> (B, S, H, K) each."""
        return self.key(x), self.value(x)

    def attend_to(self, x, projected, visible=None, training=None):
        """Attends from x (B, L, D) to `projected`, the keys and values that `project` returns: (B, L, D)."""
        return self.merge(self.mix(self.query(x), *projected, self.honoured(visible), training))

    def honoured(self, visible: Visible | None) -> Visible:
        """Returns `visible`, or an empty `Visible` for None. Raises a ValueError if this mixer does not support one of its fields."""
        visible = visible or Visible()
        check_honours(type(self), visible.given())
        return visible

    def mix(self, query, key, value, visible: Visible, training=None):
        """Mixes the values by queries and keys: (B, L, H, K), (B, S, H, K) and (B, S, H, K) -> (B, L, H, K)."""
        raise TypeError(f"{type(self).__name__} must define `mix`.")

    def probabilities(self, x, visible=None):
        """Returns the attention probabilities, float32 (B, H, L, L), for pictures, and for tests as a reference for `mix`."""
        raise TypeError(f"{type(self).__name__} must define `probabilities`.")

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


def check_honours(mixer: type[Mixer], required: frozenset[str]) -> None:
    """Raises a ValueError unless a mixer supports all these fields of `Visible`."""
    missing = sorted(required - mixer.honours)
    if missing:
        raise ValueError(
            f"{mixer.__name__} cannot honour {', '.join(f'`{name}`' for name in missing)} of `Visible`; it honours "
            f"{', '.join(sorted(mixer.honours))}. Take another mixer; known: {', '.join(names())}."
        )


def mixer_for(config, initialization: Initialization, required: frozenset[str]) -> Mixer:
    """Returns the mixer that `config.mixer` names.

    Args:
        config: has `mixer`, `num_heads`, `hidden_dim`, `attention_dropout`, and the sizes that the mixer needs.
        initialization: of its kernels.
        required: the fields of `Visible` that the network sets.

    Raises:
        ValueError: the mixer is unknown or does not support a required field.
    """
    mixer = find(config.mixer)
    check_honours(mixer, required)
    return mixer.for_network(config, initialization)
