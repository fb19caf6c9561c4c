"""Longformer: a sliding window and a few tokens that see all others and are seen by them (Beltagy et al., 2020, arXiv 2004.05150)."""

import dataclasses
from typing import ClassVar

from keras import ops

from xmodels.layers.attention.core import attend, attention_probabilities, split_heads
from xmodels.layers.attention.local_window import LocalWindow, beside
from xmodels.layers.attention.visible import Visible, row
from xmodels.layers.initialization import Initialization
from xmodels.layers.mixers import Numbers, number
from xmodels.layers.rows import take_rows


@dataclasses.dataclass(frozen=True)
class LongformerNumbers(Numbers):
    """The numbers of `Longformer`. `attention_window` of released networks is twice the window."""

    of_no_weight: ClassVar[frozenset[str]] = frozenset({"window", "windows", "num_global"})
    window: int = number(256, "how many tokens a token attends to on each side")
    windows: tuple[int, ...] = number((), "the same for each layer in turn; empty: `window` for all")
    num_global: int = number(
        64, "at most so many tokens of a text see all and are seen by all; the first token, or those that are marked"
    )


class Longformer(LocalWindow):
    """Softmax attention to the keys within a window and to global tokens, in O(L * (window + g)).

    Global tokens are the first g that `Visible.global_ids` marks; without it the first token of the text. Their own queries have
    projections of their own, with other keys and values, and attend to all real tokens. Other tokens attend to them with the
    projections of the window, once if they lie within it.

    Args:
        num_global: g. Others as in `LocalWindow`.

    Call arguments:
        context: the text that begins with the tokens of `x`. Others as in `Mixer`.
    """

    numbers = LongformerNumbers
    supports = frozenset({"padding", "global_ids"})
    has_global_tokens = True
    copies = {"query_global": "query", "key_global": "key", "value_global": "value"}

    def __init__(
        self, num_heads: int, hidden_dim: int, dropout: float = 0.0, initialization: Initialization | None = None, *, window: int,
        num_global: int, **kwargs,
    ):  # fmt: skip
        super().__init__(num_heads, hidden_dim, dropout, initialization, window=window, **kwargs)
        self.num_global = num_global
        initialization = initialization or Initialization()
        self.query_global, self.key_global, self.value_global = (
            split_heads(num_heads, self.head_dim, name, initialization)
            for name in ("query_global", "key_global", "value_global")
        )

    @classmethod
    def for_block(cls, config, initialization, index=0, shared=None):
        numbers = config.mixer_numbers
        if numbers.windows and len(numbers.windows) != config.num_layers:
            raise ValueError(
                f"`mixer.windows` must be empty or have {config.num_layers} numbers, one for each layer. Received: "
                f"{', '.join(map(str, numbers.windows))}."
            )
        window = numbers.windows[index] if numbers.windows else numbers.window
        sizes = config.num_heads, config.hidden_dim, config.attention_dropout, initialization
        return cls(*sizes, window=window, num_global=numbers.num_global)

    @classmethod
    def keys_per_query(cls, config, length):
        numbers = config.mixer_numbers
        return min(length, 3 * max(numbers.windows or (numbers.window,)) + numbers.num_global)

    def call(self, x, visible=None, context=None, training=None):
        text, visible = x if context is None else context, self.supported(visible)
        places, chosen = self.global_places(text, visible)  # int (B, g), bool (B, g)
        marks = ops.one_hot(places, ops.shape(text)[1], dtype="float32") * ops.expand_dims(
            ops.cast(chosen, "float32"), 2
        )
        is_global = ops.sum(marks, axis=1)  # (B, S)
        key, value = self.project(text)
        extra = *(take_tokens(each, places) for each in (key, value)), chosen
        local = real_tokens(text, visible) * (1 - ops.cast(is_global, "int32"))
        mixed = self.mix_locally(self.query(x), key, value, local > 0, extra, training)
        length = ops.shape(x)[1]
        asked = self.query_global(ops.einsum("bgl,bld->bgd", ops.cast(marks[:, :, :length], x.dtype), x))
        visible_to_global = Visible(padding=visible.padding)
        answers = attend(
            asked,
            self.key_global(text),
            self.value_global(text),
            visible_to_global,
            dropout=self.dropout,
            training=training,
        )
        answers = ops.einsum("bgl,bghk->blhk", ops.cast(marks[:, :, :length], mixed.dtype), answers)
        others = ops.cast(1 - is_global[:, :length, None, None], mixed.dtype)
        return self.merge(mixed * others + answers)

    def global_places(self, text, visible):
        """Returns the places of the global tokens of each text, int (B, g), and which of them there are, bool (B, g)."""
        length = ops.shape(text)[1]
        places = ops.expand_dims(ops.arange(length, dtype="int32"), 0)
        marked = ops.equal(places, 0) if visible.global_ids is None else visible.global_ids > 0
        ranks = ops.where(marked, length - places, 0) * real_tokens(text, visible)
        ranks = ops.pad(ranks, ((0, 0), (0, self.num_global)))  # a text may be shorter than g
        ranks, found = ops.top_k(ranks, self.num_global)
        return ops.where(ranks > 0, found, 0), ranks > 0

    def mix_locally(self, query, key, value, local, extra, training=None):
        """Attends to the keys within the window and to further ones.

        Args:
            query: (B, L, H, K), those of the first tokens.
            key, value: (B, S, H, K).
            local: bool (B, S), the keys that are seen within the window only.
            extra: keys (B, g, H, K), values, and which of them there are, bool (B, g); seen by all.
        """
        near, length = Visible(padding=local, window=self.window), query.shape[1]
        if length is None or (length > self.window and length == key.shape[1]):
            return self.attend_in_blocks(query, key, value, near, training, extra)
        attention_mask = near.dense(ops.shape(query)[1], ops.shape(key)[1])
        return attend(*beside(query, key, value, attention_mask, extra), dropout=self.dropout, training=training)

    def probabilities(self, x, visible=None):
        visible, length = self.supported(visible), ops.shape(x)[1]
        seen, is_global = self.visible_keys(x, visible)
        local = attention_probabilities(self.query(x), self.key(x), seen)
        whole = attention_probabilities(
            self.query_global(x), self.key_global(x), Visible(padding=visible.padding).dense(length, length)
        )
        return ops.where(is_global[:, None, :, None], whole, local)

    def explicit(self, x, visible=None):
        weights, is_global = self.probabilities(x, visible), self.visible_keys(x, self.supported(visible))[1]
        local, whole = (ops.einsum("bhls,bshk->blhk", weights, each(x)) for each in (self.value, self.value_global))
        return self.merge(ops.where(is_global[:, :, None, None], whole, local))

    def visible_keys(self, x, visible):
        """Returns which keys a query of the window attends to, bool (B, 1, L, L), and which tokens are global, bool (B, L)."""
        places, chosen = self.global_places(x, visible)
        length = ops.shape(x)[1]
        marks = ops.one_hot(places, length, dtype="float32") * ops.expand_dims(ops.cast(chosen, "float32"), 2)
        is_global = ops.sum(marks, axis=1) > 0
        near = Visible(window=self.window).dense(length, length)
        seen = ops.logical_or(near, row(is_global))
        return ops.logical_and(seen, row(real_tokens(x, visible) > 0)), is_global

    def reach(self, length):
        first = ops.equal(ops.arange(length), 0)
        near = Visible(window=self.window).dense(length, length)[0]
        return ops.logical_or(near, ops.logical_or(first[None, None], first[None, :, None]))


def take_tokens(x, places):
    """Returns the heads of the tokens at `places`: (B, S, H, K) and int (B, g) -> (B, g, H, K)."""
    batch, length, heads, width = ops.shape(x)
    taken = take_rows(ops.reshape(x, (batch, length, heads * width)), places)
    return ops.reshape(taken, (batch, -1, heads, width))


def real_tokens(text, visible):
    """Returns 1 for real tokens and 0 for padding, int (B, S)."""
    if visible.padding is None:
        return ops.ones(ops.shape(text)[:2], "int32")
    return ops.cast(visible.padding, "int32")
