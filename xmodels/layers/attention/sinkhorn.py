"""Sparse Sinkhorn attention: blocks attend to themselves and to blocks sorted to them (Tay et al., 2020, arXiv 2002.11296)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.attention.core import HIDDEN, pad_tokens
from xmodels.layers.mixers import Numbers, ProjectedMixer, number


@dataclasses.dataclass(frozen=True)
class SinkhornNumbers(Numbers):
    """The numbers of `Sinkhorn`."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"temperature": (0.01, 100)}
    of_no_weight: ClassVar[frozenset[str]] = frozenset({"num_iterations", "temperature"})
    block_size: int = number(64, "tokens of a block")
    num_iterations: int = number(8, "how often rows and columns of the order of blocks are normalised in turn")
    temperature: float = number(
        0.75, "by which the scores of the order are divided; lower ones are nearer to a permutation"
    )


class Sinkhorn(ProjectedMixer):
    """Softmax attention of each block of b tokens to itself and to a mix of all blocks, in O(L * b + (L / b)^2).

    A block scores all places by relu(sum of its tokens W). Normalising rows and columns in turn makes the exponentials of these a soft
    permutation P of blocks (section 3.1), and the sorted keys are P times the keys of blocks, token by token; values alike. It has no
    causal form here, no noise in training, and texts have at most as many blocks as there are scores for.

    Args:
        block_size, num_iterations, temperature: as in `SinkhornNumbers`. Others as in `ProjectedMixer`.
        max_sequence_length: the most tokens of a text.
    """

    numbers = SinkhornNumbers
    supports = frozenset({"padding"})
    has_probabilities = False

    def __init__(
        self, num_heads: int, hidden_dim: int, dropout: float, initialization, *, block_size: int, num_iterations: int,
        temperature: float, max_sequence_length: int, **kwargs,
    ):  # fmt: skip
        super().__init__(num_heads, hidden_dim, dropout, initialization, **kwargs)
        self.size, self.iterations, self.temperature = block_size, num_iterations, temperature
        shape = (num_heads, hidden_dim, -(-max_sequence_length // block_size))
        initializer = keras.initializers.RandomNormal(stddev=hidden_dim**-0.5)
        self.sort = self.add_weight(shape=shape, initializer=initializer, name="sort")

    @classmethod
    def for_block(cls, config, initialization, index=0, shared=None):
        sizes = config.num_heads, config.hidden_dim, config.attention_dropout, initialization
        numbers = {field.name: getattr(config.mixer_numbers, field.name) for field in dataclasses.fields(cls.numbers)}
        return cls(*sizes, **numbers, max_sequence_length=config.max_sequence_length)

    @classmethod
    def keys_per_query(cls, config, length):
        return min(length, 2 * config.mixer_numbers.block_size)

    def call(self, x, visible=None, context=None, training=None):
        """Works as in `Mixer`; `context` is the text that begins with the tokens of `x`."""
        text, visible, length = x if context is None else context, self.supported(visible), ops.shape(x)[1]
        real = ops.ones(ops.shape(text)[:2], "bool") if visible.padding is None else ops.cast(visible.padding, "bool")
        missing, size = -ops.shape(text)[1] % self.size, self.size
        text = pad_tokens(text, missing)
        real = pad_tokens(ops.cast(real, text.dtype), missing)
        shape = (ops.shape(text)[0], -1, size)
        text, real = text * real[..., None], ops.reshape(real, shape)  # (B, n, b)
        order = self.order(text, real)  # (B, H, n, n)
        query, key, value = (
            ops.reshape(each(text), (*shape, self.num_heads, self.head_dim))
            for each in (self.query, self.key, self.value)
        )
        key, value = (each * real[..., None, None] for each in (key, value))
        keys, values = (
            ops.concatenate([each, ops.einsum("bhij,bjohk->biohk", ops.cast(order, each.dtype), each)], axis=2)
            for each in (key, value)
        )  # (B, n, 2 b, H, K)
        sorted_there = ops.broadcast_to(ops.max(real, axis=1, keepdims=True), ops.shape(real))
        seen = ops.concatenate([real, sorted_there], axis=2)[:, :, None, None]  # (B, n, 1, 1, 2 b)
        scores = ops.einsum("bnqhk,bnshk->bnhqs", query * self.head_dim**-0.5, keys)
        weights = ops.softmax(ops.cast(scores, "float32") + (1.0 - ops.cast(seen, "float32")) * HIDDEN, axis=-1)
        weights = self.dropout(ops.cast(weights, values.dtype), training=training)
        mixed = ops.einsum("bnhqs,bnshk->bnqhk", weights, values)
        mixed = ops.reshape(mixed, (shape[0], -1, self.num_heads, self.head_dim))
        return self.merge(mixed[:, :length])

    def order(self, text, real):
        """Returns the soft permutation of blocks, float32 (B, H, n, n): how much of each block comes to each place.

        Args:
            text: (B, n b, D), zero at padding.
            real: (B, n, b), 1 for real tokens.
        """
        count, most = ops.shape(real)[1], self.sort.shape[2]
        if isinstance(count, int) and count > most:
            raise ValueError(
                f"Sinkhorn sorts at most {most} blocks of {self.size} tokens (`max_sequence_length`). Received: {count} blocks."
            )
        sums = ops.sum(ops.reshape(text, (*ops.shape(real), -1)), axis=2)  # (B, n, D)
        scores = ops.einsum("bnd,hdm->bhnm", sums, ops.cast(self.sort, sums.dtype)[..., :count])
        scores = ops.relu(ops.cast(scores, "float32")) / self.temperature
        there = ops.max(ops.cast(real, "float32"), axis=2)  # (B, n)
        hidden = (1.0 - there[:, None, :, None] * there[:, None, None, :]) * -1e9
        for _ in range(self.iterations):
            for axis in (-1, -2):
                scores = scores + hidden
                scores = scores - ops.logsumexp(scores, axis=axis, keepdims=True)
        return ops.exp(scores + hidden)

    def explicit(self, x, visible=None):
        visible, length = self.supported(visible), x.shape[1]
        real = ops.ones(x.shape[:2]) if visible.padding is None else ops.cast(visible.padding, "float32")
        block = ops.arange(length, dtype="int32") // self.size
        count = -(-length // self.size)
        of_block = ops.one_hot(block, count, dtype="float32")  # (L, n)
        sums = ops.einsum("bld,ln->bnd", x * real[..., None], of_block)
        there = ops.cast(ops.einsum("bl,ln->bn", real, of_block) > 0, "float32")
        order = ops.exp(ops.relu(ops.einsum("bnd,hdm->bhnm", sums, self.sort[..., :count])) / self.temperature)
        order = order * there[:, None, :, None] * there[:, None, None, :]
        for axis in (-1, -2) * self.iterations:
            total = ops.sum(order, axis=axis, keepdims=True)
            order = order / ops.where(total > 0, total, 1.0)
        # The share of each token in each sorted one: that of its block, where both stand at the same place of their blocks.
        places = ops.arange(count * self.size, dtype="int32")
        same = ops.equal((places % self.size)[:, None], (ops.arange(length, dtype="int32") % self.size)[None])
        share = ops.einsum("bhij,lj->bhil", order, of_block)  # (B, H, n, L)
        share = (
            ops.repeat(share, self.size, axis=2) * ops.cast(same, "float32") * real[:, None, None, :]
        )  # (B, H, n b, L)
        key, value = self.key(x), self.value(x)
        keys, values = (ops.einsum("bhml,blhk->bmhk", share, each) for each in (key, value))
        sorted_there = ops.einsum("ml,bl->bm", ops.cast(same, "float32"), real) > 0
        near = ops.equal(block[:, None], block[None])[None]
        own = ops.logical_and(near, real[:, None] > 0)
        beside = ops.logical_and(ops.equal(block[:, None], (places // self.size)[None])[None], sorted_there[:, None])
        mask = ops.concatenate([own, beside], axis=2)[:, None]
        scores = ops.einsum("blhk,bmhk->bhlm", self.query(x), ops.concatenate([key, keys], axis=1)) / self.head_dim**0.5
        weights = ops.softmax(scores + (1.0 - ops.cast(mask, "float32")) * HIDDEN, axis=-1)
        return self.merge(ops.einsum("bhlm,bmhk->blhk", weights, ops.concatenate([value, values], axis=1)))
