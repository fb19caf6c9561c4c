"""What mixes the tokens of a text, and where to find it: each file of `layers/attention` that defines a `Mixer` is one.

Another mixer is another file there; `Bert`, `Gpt` and their kin take it by its name.
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
    """Projections to queries, keys and values of H heads, and `merge` behind them. What lies between is the mixer's own: `mix`.

    All have these weights, so that one can go on from the weights of another.

    Args:
        head_dim: width of a head; by default an even share of `hidden_dim`.

    Class attributes:
        honours: the fields of `Visible` that it heeds. It refuses the others.
        rewinds: whether `step` may go back to an earlier position and read other tokens there.
        shares_past: whether `step` reads the next tokens of several beams that share a past, `attention.places.Beams`.

    Call arguments:
        x: (B, L, D).
        visible: a `Visible`; by default all.
        context: (B, S, D), what keys and values are made of; by default `x`. Queries then are its first tokens.

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
        """The mixer of a network, with the numbers of its configuration. Override where there are more of them."""
        return cls(config.num_heads, config.hidden_dim, config.attention_dropout, initialization)

    @classmethod
    def keys_per_query(cls, config, length: int) -> int:
        """With how many tokens of a text each is compared, for estimates of memory. Override where these are not all."""
        return length

    def call(self, x, visible=None, context=None, training=None):
        return self.attend_to(x, self.project(x if context is None else context), visible, training)

    def project(self, x):
        """(B, S, D) -> keys and values, (B, S, H, K) each."""
        return self.key(x), self.value(x)

    def attend_to(self, x, projected, visible=None, training=None):
        """From (B, L, D) to what `project` has given: (B, L, D)."""
        return self.merge(self.mix(self.query(x), *projected, self.honoured(visible), training))

    def honoured(self, visible: Visible | None) -> Visible:
        """The same. Raises a ValueError where a field is given that this mixer does not heed."""
        visible = visible or Visible()
        check_honours(type(self), visible.given())
        return visible

    def mix(self, query, key, value, visible: Visible, training=None):
        """(B, L, H, K) of queries and (B, S, H, K) of keys and of values -> (B, L, H, K)."""
        raise TypeError(f"{type(self).__name__} must define `mix`.")

    def probabilities(self, x, visible=None):
        """How much each token takes of each: float32 (B, H, L, L), for pictures, and for tests the long way to `mix`."""
        raise TypeError(f"{type(self).__name__} must define `probabilities`.")

    def start(self, batch, length: int):
        """What `step` takes as `past` for texts of at most `length` tokens: tensors with the batch as first axis, nested."""
        raise TypeError(f"{type(self).__name__} must define `start`.")

    def step(self, x, past, place):
        """The next L tokens of texts, each of which sees what stands before it.

        Args:
            x: (B, L, D), of the tokens from the position `place` on; or of `attention.places.Beams`.
            past: of `start`, or of the call before.

        Returns:
            (B, L, D), and `past` with these tokens.
        """
        raise TypeError(f"{type(self).__name__} must define `step`.")


def names() -> list[str]:
    """All mixers, by the files that define them."""
    return sorted(module.name for module in pkgutil.iter_modules(attention.__path__) if _class_of(module.name))


def find(name: str) -> type[Mixer]:
    """The mixer that `layers/attention/<name>.py` defines. Raises a ValueError that lists the known ones."""
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
    """Raises a ValueError unless a mixer heeds all these fields of `Visible`."""
    missing = sorted(required - mixer.honours)
    if missing:
        raise ValueError(
            f"{mixer.__name__} cannot honour {', '.join(f'`{name}`' for name in missing)} of `Visible`; it honours "
            f"{', '.join(sorted(mixer.honours))}. Take another mixer; known: {', '.join(names())}."
        )


def mixer_for(config, initialization: Initialization, required: frozenset[str]) -> Mixer:
    """The mixer that a configuration names.

    Args:
        config: has `mixer`, `num_heads`, `hidden_dim`, `attention_dropout`, and the numbers of the mixer.
        required: the fields of `Visible` that the network sets.

    Raises:
        ValueError: it is not known, or heeds less than is required.
    """
    mixer = find(config.mixer)
    check_honours(mixer, required)
    return mixer.for_network(config, initialization)
