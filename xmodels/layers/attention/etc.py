"""ETC's global-local attention: projections of their own for each of four kinds of pairs (Ainslie et al., 2020, arXiv 2004.08483)."""

import dataclasses

from keras import ops

from xmodels.layers.attention.core import attend, split_heads
from xmodels.layers.attention.longformer import Longformer, LongformerNumbers, real_tokens
from xmodels.layers.attention.visible import Visible
from xmodels.layers.initialization import Initialization
from xmodels.layers.mixers import number


@dataclasses.dataclass(frozen=True)
class EtcNumbers(LongformerNumbers):
    """The numbers of `Etc`, which `--help` reads here."""

    window: int = number(256, "how many tokens a token attends to on each side")
    windows: tuple[int, ...] = number((), "the same for each layer in turn; empty: `window` for all")
    num_global: int = number(64, "at most so many tokens of a text see all and are seen by all")


class Etc(Longformer):
    """Softmax attention to the keys within a window and to global tokens, in O(L * (window + g)), as `Longformer`.

    Keys and values differ by who asks and who is asked (section 3.2): two tokens of the text, `key`; a token a global one,
    `key_to_global`; a global one a token, `key_global`; two global ones, `key_among_global`. The keys of each token stand in one
    softmax. Global tokens are tokens of the text, which tasks mark, as in `Longformer`; the paper has an input of its own for them,
    and relative positions.
    """

    numbers = EtcNumbers
    supports = frozenset({"padding", "global_ids"})
    copies = {
        **Longformer.copies,
        **{f"{name}_{kind}": name for name in ("key", "value") for kind in ("to_global", "among_global")},
    }

    def __init__(
        self, num_heads: int, hidden_dim: int, dropout: float = 0.0, initialization: Initialization | None = None, **kwargs
    ):  # fmt: skip
        super().__init__(num_heads, hidden_dim, dropout, initialization, **kwargs)
        initialization = initialization or Initialization()
        names = [f"{name}_{kind}" for kind in ("to_global", "among_global") for name in ("key", "value")]
        self.key_to_global, self.value_to_global, self.key_among_global, self.value_among_global = (
            split_heads(num_heads, self.head_dim, name, initialization) for name in names
        )

    def call(self, x, visible=None, context=None, training=None):
        text, visible = x if context is None else context, self.supported(visible)
        length = ops.shape(x)[1]
        places, chosen = self.global_places(text, visible)  # int (B, g), bool (B, g)
        marks = ops.one_hot(places, ops.shape(text)[1], dtype=text.dtype) * ops.expand_dims(
            ops.cast(chosen, text.dtype), 2
        )
        is_global = ops.sum(marks, axis=1)  # (B, S)
        others = real_tokens(text, visible) * (1 - ops.cast(is_global, "int32")) > 0
        own = ops.einsum("bgl,bld->bgd", marks, text)  # (B, g, D)
        extra = self.key_to_global(own), self.value_to_global(own), chosen
        mixed = self.mix_locally(self.query(x), *self.project(text), others, extra, training)
        asked = self.query_global(ops.einsum("bgl,bld->bgd", marks[:, :, :length], x))
        key = ops.concatenate([self.key_among_global(own), self.key_global(text)], axis=1)
        value = ops.concatenate([self.value_among_global(own), self.value_global(text)], axis=1)
        seen = Visible(padding=ops.concatenate([chosen, others], axis=1))
        answers = attend(asked, key, value, seen, dropout=self.dropout, training=training)  # (B, g, H, K)
        answers = ops.einsum("bgl,bghk->blhk", ops.cast(marks[:, :, :length], answers.dtype), answers)
        rest = ops.cast(1 - is_global[:, :length, None, None], mixed.dtype)
        return self.merge(mixed * rest + answers)

    def probabilities(self, x, visible=None):
        visible = self.supported(visible)
        seen, is_global = self.visible_keys(x, visible)
        by, of = is_global[:, None, :, None], is_global[:, None, None, :]

        def scores(query, key):
            return ops.einsum("blhk,bshk->bhls", query(x), key(x)) * self.head_dim**-0.5

        local = ops.where(of, scores(self.query, self.key_to_global), scores(self.query, self.key))
        whole = ops.where(
            of, scores(self.query_global, self.key_among_global), scores(self.query_global, self.key_global)
        )
        real = real_tokens(x, visible)[:, None, None, :] > 0
        mask = ops.logical_and(ops.logical_or(by, seen), real)
        return ops.softmax(ops.where(mask, ops.cast(ops.where(by, whole, local), "float32"), -1e9), axis=-1)

    def explicit(self, x, visible=None):
        weights, is_global = self.probabilities(x, visible), self.visible_keys(x, self.supported(visible))[1]
        of = ops.cast(is_global[:, None, None, :], "float32")
        parts = [
            ops.einsum("bhls,bshk->blhk", weights * share, value(x))
            for share, value in (
                (1 - of, self.value), (of, self.value_to_global), (1 - of, self.value_global), (of, self.value_among_global)
            )
        ]  # fmt: skip
        return self.merge(ops.where(is_global[:, :, None, None], parts[2] + parts[3], parts[0] + parts[1]))
