"""Sparse Sinkhorn attention: blocks attend to themselves and to blocks sorted to them (Tay et al., 2020, arXiv 2002.11296)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.attention.core import HIDDEN, heads_first, pad_tokens
from xmodels.layers.attention.places import positions_of, slot_of
from xmodels.layers.attention.writing import write_at
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
    permutation P of blocks (section 3.1), and the sorted keys are P times the keys of blocks, token by token; values alike. There is
    no noise in training, and texts have at most as many blocks as there are scores for.

    In causal attention (section 3.3) a token attends to its own block up to itself, and to a mix of the blocks before its own. The
    scores of a block are those of all tokens up to its first one, and columns are normalised over the blocks up to it, so that they no
    longer sum to one. The paper adds these tokens up; here it is b times their mean, so that scores do not grow with the text.

    Args:
        block_size, num_iterations, temperature: as in `SinkhornNumbers`. Others as in `ProjectedMixer`.
        max_sequence_length: the most tokens of a text.
    """

    numbers = SinkhornNumbers
    supports = frozenset({"padding", "causal"})
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
        asked, text, real = text, text * real[..., None], ops.reshape(real, shape)  # (B, n, b)
        sort = self.order_causally if visible.causal else self.order
        order = sort(text, real)  # (B, H, n, n)
        query, key, value = (
            ops.reshape(each(given), (*shape, self.num_heads, self.head_dim))
            for each, given in ((self.query, asked), (self.key, text), (self.value, text))
        )
        key, value = (each * real[..., None, None] for each in (key, value))
        keys, values = (
            ops.concatenate([each, ops.einsum("bhij,bjohk->biohk", ops.cast(order, each.dtype), each)], axis=2)
            for each in (key, value)
        )  # (B, n, 2 b, H, K)
        near = real[:, :, None, None]  # (B, n, 1, 1, b)
        if visible.causal:
            places = ops.arange(size, dtype="int32")
            near = near * ops.cast(places[:, None] >= places[None], real.dtype)  # (B, n, 1, b, b)
            far = ops.cast(ops.cumsum(real, axis=1) - real > 0, real.dtype)
        else:
            far = ops.broadcast_to(ops.max(real, axis=1, keepdims=True), ops.shape(real))
        far = ops.broadcast_to(far[:, :, None, None], ops.shape(near))
        seen = ops.concatenate([near, far], axis=4)  # (B, n, 1, 1 or b, 2 b)
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
        scores = self.scores_of(ops.sum(ops.reshape(text, (*ops.shape(real), -1)), axis=2))
        there = ops.max(ops.cast(real, "float32"), axis=2)  # (B, n)
        hidden = (1.0 - there[:, None, :, None] * there[:, None, None, :]) * -1e9
        for _ in range(self.iterations):
            for axis in (-1, -2):
                scores = scores + hidden
                scores = scores - ops.logsumexp(scores, axis=axis, keepdims=True)
        return ops.exp(scores + hidden)

    def scores_of(self, sums):
        """Returns the scores of blocks for places, at least 0, float32 (B, H, n, n), from sums of tokens (B, n, D)."""
        count, most = ops.shape(sums)[1], self.sort.shape[2]
        if isinstance(count, int) and count > most:
            raise ValueError(
                f"Sinkhorn sorts at most {most} blocks of {self.size} tokens (`max_sequence_length`). Received: {count} blocks."
            )
        scores = ops.einsum("bnd,hdm->bhnm", sums, ops.cast(self.sort, sums.dtype)[..., :count])
        return ops.relu(ops.cast(scores, "float32")) / self.temperature

    def order_causally(self, text, real):
        """Returns how much of each block comes to each place behind it, float32 (B, H, n, n), zero on and above the diagonal. A row
        does not depend on tokens behind the first one of its block. Arguments as of `order`."""
        blocks = ops.cast(ops.reshape(text, (*ops.shape(real), -1)), "float32")  # (B, n, b, D)
        real = ops.cast(real, "float32")
        tokens, count = _up_to_first(blocks), _up_to_first(real)[..., None]  # (B, n, D), (B, n, 1)
        scores = self.scores_of(tokens * (self.size / ops.maximum(count, 1.0)))
        places = ops.arange(ops.shape(real)[1], dtype="int32")
        there = ops.max(real, axis=2)[:, None, None]  # (B, 1, 1, n)
        there = there * ops.cast(places[:, None] > places[None], "float32")
        order = _exponentials(scores, there)
        for _ in range(self.iterations):
            order = order / _one_for_none(ops.sum(order, axis=-1, keepdims=True))
            order = order / _one_for_none(ops.cumsum(order, axis=-2))
        return order

    def start(self, batch, length: int):
        """Returns the keys and values, (B, H, T, K) each, and the tokens, (B, 1, T, D), all zero."""
        shape = (batch, self.num_heads, length, self.head_dim)
        keys, values = ops.zeros(shape, self.compute_dtype), ops.zeros(shape, self.compute_dtype)
        return keys, values, ops.zeros((batch, 1, length, self.sort.shape[1]), self.compute_dtype)

    def step(self, x, past, place):
        length, total, size = ops.shape(x)[1], past[2].shape[2], self.size
        new = (*map(heads_first, self.project(x)), x[:, None])
        key, value, text = past = tuple(
            write_at(old, each, slot_of(place)) for old, each in zip(past, new, strict=True)
        )
        missing = -total % size
        count = (total + missing) // size
        # What stood behind them before counts for nothing.
        known = ops.arange(count * size, dtype="int32") < place + length
        shape = (ops.shape(x)[0], count, size)
        real = ops.broadcast_to(ops.reshape(ops.cast(known, text.dtype), (1, count, size)), shape)
        text = pad_tokens(text[:, 0], missing) * ops.cast(known, text.dtype)[None, :, None]
        positions = positions_of(place, length)  # (L,)
        own, inside = positions // size, positions % size
        order = ops.take(self.order_causally(text, real), own, axis=2)  # (B, H, L, n)
        blocks = [
            ops.reshape(pad_tokens(heads_first(each), missing), (*shape, self.num_heads, self.head_dim))
            for each in (key, value)
        ]
        keys, values = (
            ops.concatenate(
                [ops.take(each, own, axis=1), ops.einsum("bhlj,bjohk->blohk", ops.cast(order, each.dtype), each)],
                axis=2,
            )
            for each in blocks
        )  # (B, L, 2 b, H, K)
        near = ops.arange(size, dtype="int32")[None] <= inside[:, None]  # (L, b)
        seen = ops.concatenate([near, ops.broadcast_to(own[:, None] > 0, ops.shape(near))], axis=1)
        scores = ops.einsum("blhk,blshk->bhls", self.query(x) * self.head_dim**-0.5, keys)
        weights = ops.softmax(ops.cast(scores, "float32") + (1.0 - ops.cast(seen, "float32")) * HIDDEN, axis=-1)
        return self.merge(ops.einsum("bhls,blshk->blhk", ops.cast(weights, values.dtype), values)), past

    def explicit(self, x, visible=None):
        visible, length = self.supported(visible), x.shape[1]
        real = ops.ones(x.shape[:2]) if visible.padding is None else ops.cast(visible.padding, "float32")
        block = ops.arange(length, dtype="int32") // self.size
        count = -(-length // self.size)
        of_block = ops.one_hot(block, count, dtype="float32")  # (L, n)
        sums = ops.einsum("bld,ln->bnd", x * real[..., None], of_block)
        there = ops.cast(ops.einsum("bl,ln->bn", real, of_block) > 0, "float32")
        if visible.causal:
            order = self.rows_one_by_one(x * real[..., None], real, there)
        else:
            order = ops.exp(ops.relu(ops.einsum("bnd,hdm->bhnm", sums, self.sort[..., :count])) / self.temperature)
            order = order * there[:, None, :, None] * there[:, None, None, :]
            for axis in (-1, -2) * self.iterations:
                order = order / _one_for_none(ops.sum(order, axis=axis, keepdims=True))
        # The share of each token in each sorted one: that of its block, where both stand at the same place of their blocks.
        places = ops.arange(count * self.size, dtype="int32")
        same = ops.equal((places % self.size)[:, None], (ops.arange(length, dtype="int32") % self.size)[None])
        share = ops.einsum("bhij,lj->bhil", order, of_block)  # (B, H, n, L)
        share = (
            ops.repeat(share, self.size, axis=2) * ops.cast(same, "float32") * real[:, None, None, :]
        )  # (B, H, n b, L)
        key, value = self.key(x), self.value(x)
        keys, values = (ops.einsum("bhml,blhk->bmhk", share, each) for each in (key, value))
        near = ops.equal(block[:, None], block[None])[None]
        comes = ops.cast(same, "float32")  # (n b, L)
        if visible.causal:
            near = ops.logical_and(near, ops.tril(ops.ones((length, length), "bool"))[None])
            comes = comes * ops.cast(block[None] < (places // self.size)[:, None], "float32")
        sorted_there = ops.einsum("ml,bl->bm", comes, real) > 0
        own = ops.logical_and(near, real[:, None] > 0)
        beside = ops.logical_and(ops.equal(block[:, None], (places // self.size)[None])[None], sorted_there[:, None])
        mask = ops.concatenate([own, beside], axis=2)[:, None]
        scores = ops.einsum("blhk,bmhk->bhlm", self.query(x), ops.concatenate([key, keys], axis=1)) / self.head_dim**0.5
        weights = ops.softmax(scores + (1.0 - ops.cast(mask, "float32")) * HIDDEN, axis=-1)
        return self.merge(ops.einsum("bhlm,bmhk->blhk", weights, ops.concatenate([value, values], axis=1)))

    def rows_one_by_one(self, text, real, there):
        """Returns what `order_causally` does, from tokens (B, L, D), which of them are real, (B, L), and which blocks have real ones,
        (B, n): block by block, each normalised by what came before it."""
        rows, totals, count = [], [0.0] * self.iterations, there.shape[1]
        for block in range(count):
            first = block * self.size + 1
            number = ops.maximum(ops.sum(real[:, :first], axis=1, keepdims=True), 1.0)
            state = ops.sum(text[:, :first], axis=1) / number * self.size
            row = ops.relu(ops.einsum("bd,hdm->bhm", state, self.sort[..., :count])) / self.temperature
            row = _exponentials(row, there[:, None] * ops.cast(ops.arange(count) < block, "float32"))
            for turn in range(self.iterations):
                row = row / _one_for_none(ops.sum(row, axis=-1, keepdims=True))
                totals[turn] = totals[turn] + row
                row = row / _one_for_none(totals[turn])
            rows.append(row)
        return ops.stack(rows, axis=2)


def _exponentials(scores, there):
    """Returns exponentials of the scores that are there, 1 for the largest of a row; 0 for others. Rows will be normalised."""
    largest = ops.max(scores + (there - 1.0) * -HIDDEN, axis=-1, keepdims=True)
    return ops.exp(ops.minimum(scores - largest, 0.0)) * there


def _up_to_first(x):
    """Returns for each block the sum of all tokens up to its first one: (B, n, b, ...) -> (B, n, ...)."""
    sums = ops.sum(x, axis=2)
    return ops.cumsum(sums, axis=1) - sums + x[:, :, 0]


def _one_for_none(total):
    """Returns sums with 1 in the place of 0, by which nothing is divided."""
    return ops.where(total > 0, total, 1.0)
