"""Synthesizer: attention whose weights come from each token alone, or from none (Tay et al., 2020, arXiv 2005.00743, section 3)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.attention.core import HIDDEN, heads_first, merge_heads, split_heads
from xmodels.layers.attention.places import attention_mask_from, positions_of, slot_of
from xmodels.layers.attention.writing import write_at
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import Initialization
from xmodels.layers.mixers import Mixer, Numbers, number

DENSE, RANDOM = "dense", "random"


@dataclasses.dataclass(frozen=True)
class SynthesizerNumbers(Numbers):
    """The numbers of `Synthesizer`."""

    choices: ClassVar[dict[str, tuple[str, ...]]] = {"kind": (DENSE, RANDOM)}
    kind: str = number(
        "dense",
        "where scores come from. dense: each token scores all places by itself. random: they are weights, the same for all texts",
    )


class Synthesizer(Mixer):
    """Softmax attention without products of queries and keys: the scores are W2 relu(W1 x), of each place, or a table (H, N, N).

    It takes O(L^2), as full attention does, for texts of at most N tokens.

    Args:
        kind: as in `SynthesizerNumbers`.
        max_sequence_length: N. Others as in `ProjectedMixer`.
    """

    numbers = SynthesizerNumbers
    supports = frozenset({"padding", "causal"})
    starts_from_attention = False
    compares_all = True
    shares_past = False

    def __init__(
        self, num_heads: int, hidden_dim: int, dropout: float, initialization: Initialization, kind: str, max_sequence_length: int,
        **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        self.num_heads, self.head_dim, self.most = num_heads, hidden_dim // num_heads, max_sequence_length
        self.value = split_heads(num_heads, self.head_dim, "value", initialization)
        self.merge = merge_heads(hidden_dim, initialization)
        self.dropout = Dropout(dropout)
        self.hidden = split_heads(num_heads, self.head_dim, "hidden", initialization) if kind == DENSE else None
        shape = (num_heads, max_sequence_length if kind == RANDOM else self.head_dim, max_sequence_length)
        initializer = keras.initializers.RandomNormal(stddev=1.0 if kind == RANDOM else self.head_dim**-0.5)
        self.scores = self.add_weight(shape=shape, initializer=initializer, name="scores")

    @classmethod
    def for_block(cls, config, initialization, index=0, shared=None):
        sizes = config.num_heads, config.hidden_dim, config.attention_dropout, initialization
        return cls(*sizes, kind=config.mixer_numbers.kind, max_sequence_length=config.max_sequence_length)

    def call(self, x, visible=None, context=None, training=None):
        text, visible = x if context is None else context, self.supported(visible)
        queries, keys = ops.shape(x)[1], ops.shape(text)[1]
        self.check(text.shape[1])
        weights = self.weights_of(x, ops.arange(queries, dtype="int32"), keys, visible.dense(queries, keys))
        weights = self.dropout(ops.cast(weights, x.dtype), training=training)
        return self.merge(ops.einsum("bhls,bshk->blhk", weights, self.value(text)))

    def check(self, length) -> None:
        """Raises a ValueError for texts of more tokens than there are scores for."""
        if length is not None and length > self.most:
            raise ValueError(
                f"Synthesizer has scores for texts of at most {self.most} tokens (`max_sequence_length`). Received: {length} tokens."
            )

    def weights_of(self, x, positions, keys: int, attention_mask):
        """Returns the softmax of the scores of tokens x (B, L, D) at positions (L,): float32 (B, H, L, S)."""
        table = ops.cast(self.scores, x.dtype)[..., :keys]
        if self.hidden is None:
            scores = ops.expand_dims(ops.take(table, positions, axis=1), 0)  # (1, H, L, S)
            scores = ops.broadcast_to(scores, (ops.shape(x)[0], *ops.shape(scores)[1:]))
        else:
            scores = ops.einsum("blhk,hks->bhls", ops.relu(self.hidden(x)), table)
        scores = ops.cast(scores, "float32")
        if attention_mask is not None:
            scores = scores + (1.0 - ops.cast(attention_mask, "float32")) * HIDDEN
        return ops.softmax(scores, axis=-1)

    def probabilities(self, x, visible=None):
        visible, length = self.supported(visible), ops.shape(x)[1]
        return self.weights_of(x, ops.arange(length, dtype="int32"), length, visible.dense(length, length))

    def explicit(self, x, visible=None):
        scores = ops.zeros((ops.shape(x)[0], self.num_heads, *[ops.shape(x)[1]] * 2))
        for head in range(self.num_heads):
            rows = self.scores[head]
            if self.hidden is not None:
                rows = ops.maximum(self.hidden(x)[:, :, head], 0.0) @ rows
            rows = ops.broadcast_to(rows[..., : x.shape[1], : x.shape[1]], (x.shape[0], x.shape[1], x.shape[1]))
            scores = (
                scores + rows[:, None] * ops.cast(ops.arange(self.num_heads) == head, "float32")[None, :, None, None]
            )
        mask = self.supported(visible).dense(x.shape[1], x.shape[1])
        weights = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
        weights = weights if mask is None else weights * ops.cast(mask, "float32")
        weights = weights / ops.maximum(ops.sum(weights, axis=-1, keepdims=True), 1e-30)
        return self.merge(ops.einsum("bhls,bshk->blhk", weights, self.value(x)))

    def start(self, batch, length: int):
        self.check(length)
        return ops.zeros((batch, self.num_heads, length, self.head_dim), self.compute_dtype)

    def step(self, x, past, place):
        past = write_at(past, heads_first(self.value(x)), slot_of(place))
        length, slots = ops.shape(x)[1], ops.shape(past)[2]
        weights = self.weights_of(x, positions_of(place, length), slots, attention_mask_from(place, length, slots))
        return self.merge(heads_first(ops.einsum("bhls,bhsk->bhlk", ops.cast(weights, past.dtype), past))), past
