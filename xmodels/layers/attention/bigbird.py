"""BigBird: a window, two global blocks and random blocks, in linear time (Zaheer et al., 2020, arXiv 2007.14062, section 2)."""

import dataclasses
from typing import ClassVar

from keras import ops

from xmodels.layers.attention.core import HIDDEN, attend, heads_first, pad_tokens
from xmodels.layers.attention.visible import Visible, row
from xmodels.layers.hashes import hashes
from xmodels.layers.mixers import Numbers, ProjectedMixer, number
from xmodels.layers.rows import take_rows

UNIFORM, FIRST = "uniform", "first"
AROUND = 5  # blocks of a row that are not random: the first, three of the window, the last


@dataclasses.dataclass(frozen=True)
class BigBirdNumbers(Numbers):
    """The numbers of `BigBird`."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"num_random_blocks": (0, 1000), "plan_seed": (0, 2**31 - 1)}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"plan": (UNIFORM, FIRST)}
    of_no_weight: ClassVar[frozenset[str]] = frozenset({"block_size", "num_random_blocks", "plan", "plan_seed"})
    block_size: int = number(64, "tokens of a block")
    num_random_blocks: int = number(3, "random blocks that each block attends to")
    plan: str = number(
        "uniform",
        "which random blocks. uniform: any, for each head. first: the first block again, as Hugging Face's networks compute them "
        "outside of training",
    )
    plan_seed: int = number(0, "of the random blocks")


class BigBird(ProjectedMixer):
    """Softmax attention of each block of tokens to its neighbours, the first and the last block, and r random blocks, in O(L).

    The first and the last block attend to all tokens. Random blocks are drawn once, by a hash of the seed, the layer, the head and the
    block, and the number of blocks of the text. Texts of up to 5 + 2 r blocks are mixed by full attention.

    Args:
        block_size, num_random_blocks, plan, plan_seed: as in `BigBirdNumbers`. Others as in `ProjectedMixer`.
        index: the number of the layer.
        max_sequence_length: the most tokens of a text.

    Call arguments:
        context: the text that begins with the tokens of `x`. Others as in `Mixer`.
    """

    numbers = BigBirdNumbers
    supports = frozenset({"padding"})

    def __init__(
        self, *args, block_size: int, num_random_blocks: int, plan: str, plan_seed: int, index: int, max_sequence_length: int, **kwargs
    ):  # fmt: skip
        super().__init__(*args, **kwargs)
        self.block_size, self.count, self.plan = block_size, num_random_blocks, plan
        self.short = (AROUND + 2 * num_random_blocks) * block_size  # as in the references
        rows = max(1, -(-max_sequence_length // block_size) - 2)
        self.draws = hashes((plan_seed, index), (self.num_heads, rows, num_random_blocks))

    @classmethod
    def for_block(cls, config, initialization, index=0, shared=None):
        sizes = config.num_heads, config.hidden_dim, config.attention_dropout, initialization
        numbers = {field.name: getattr(config.mixer_numbers, field.name) for field in dataclasses.fields(cls.numbers)}
        return cls(*sizes, **numbers, index=index, max_sequence_length=config.max_sequence_length)

    @classmethod
    def keys_per_query(cls, config, length):
        numbers = config.mixer_numbers
        return min(length, (AROUND + numbers.num_random_blocks) * numbers.block_size)

    def random_blocks(self, count):
        """Returns the random blocks of all blocks but the first and the last of `count`: int (H, count - 2, r), none twice and none
        that is seen anyway."""
        draws = ops.convert_to_tensor(self.draws)[:, : count - 2]
        if self.plan == FIRST:
            return ops.zeros_like(draws, dtype="int32")
        free = ops.cast(count - AROUND, "float32")
        places = ops.expand_dims(ops.expand_dims(ops.arange(1, count - 1, dtype="int32"), 0), 2)  # (1, n - 2, 1)
        chosen: list = []
        for index in range(self.count):  # each among the blocks that are left
            left = free - index
            each = ops.cast(ops.minimum(ops.floor(draws[:, :, index : index + 1] * left), left - 1), "int32")
            for earlier in ops.split(ops.sort(ops.concatenate(chosen, axis=2), axis=2), index, axis=2) if index else ():
                each = each + ops.cast(each >= earlier, "int32")
            chosen.append(each)
        blocks = ops.concatenate(chosen, axis=2) if chosen else ops.zeros((*ops.shape(draws)[:2], 0), "int32")
        # The blocks that are seen anyway, in order. The first row leaves out the last but one, the last row the second: five each.
        is_first, is_last = ops.equal(places, 1), ops.equal(places, count - 2)
        taken = (
            ops.zeros_like(places),
            ops.where(is_last, 1, places - 1 + ops.cast(is_first, "int32")),
            ops.where(is_last, count - 3, places + ops.cast(is_first, "int32")),
            ops.where(is_first | is_last, count - 2, places + 1),
            ops.zeros_like(places) + count - 1,
        )
        for each in taken:
            blocks = blocks + ops.cast(blocks >= each, "int32")
        return blocks

    def blocks_of_rows(self, count):
        """Returns which blocks each block but the first and the last attends to, int (H, n - 2, 5 + r), and which of these count,
        bool: one that is listed by two names counts once."""
        random = self.random_blocks(count)
        places = ops.broadcast_to(
            ops.reshape(ops.arange(1, count - 1, dtype="int32"), (1, -1, 1)), (self.num_heads, count - 2, 1)
        )
        first, last = ops.zeros_like(places), ops.zeros_like(places) + count - 1
        blocks = ops.concatenate([first, places - 1, places, places + 1, random, last], axis=2)
        counts = ops.concatenate(
            [places > 1, *[ops.ones_like(places, "bool")] * 3, ops.ones_like(random, "bool"), places < count - 2],
            axis=2,
        )
        return blocks, counts

    def call(self, x, visible=None, context=None, training=None):
        visible, text = self.supported(visible), x if context is None else context
        query, (key, value) = self.query(x), self.project(text)
        if context is not None:
            return self.merge(self.mix_first(query, key, value, visible, training))

        def whole():
            return attend(query, key, value, visible, dropout=self.dropout, training=training)

        def by_blocks():
            return self.mix(query, key, value, visible, training)

        length = x.shape[1]
        if length is None:
            return self.merge(ops.cond(ops.shape(x)[1] <= self.short, whole, by_blocks))
        return self.merge(whole() if length <= self.short else by_blocks())

    def mix_first(self, query, key, value, visible, training):
        """Mixes the first tokens of a text: those of its first block attend to all."""
        length = query.shape[1]
        if length is None or length > self.block_size:
            raise ValueError(f"BigBird mixes at most the first {self.block_size} tokens of a text. Received: {length}.")
        return attend(query, key, value, visible, dropout=self.dropout, training=training)

    def mix(self, query, key, value, visible, training=None):
        length, size = ops.shape(query)[1], self.block_size
        real = ops.ones(ops.shape(query)[:2], "bool") if visible.padding is None else ops.cast(visible.padding, "bool")
        total = length + -length % size
        query, key, value, real = (pad_tokens(x, total - length) for x in (query, key, value, real))
        count = total // size
        ends = ops.concatenate([query[:, :size], query[:, -size:]], axis=1)
        ends = attend(
            ends, key, value, Visible(padding=real), dropout=self.dropout, training=training
        )  # (B, 2 b, H, K)
        middle = self.mix_rows(query[:, size:-size], key, value, real, count, training)
        return ops.concatenate([ends[:, :size], middle, ends[:, size:]], axis=1)[:, :length]

    def mix_rows(self, query, key, value, real, count, training):
        """Mixes the tokens of all blocks but the first and the last: (B, L - 2 b, H, K)."""
        (batch, _, heads, width), size = ops.shape(query), self.block_size
        blocks, counts = self.blocks_of_rows(count)
        listed = blocks.shape[2]
        query = ops.reshape(heads_first(query), (batch, heads, count - 2, size, width))
        indices = ops.reshape(blocks, (1, heads, -1))
        drawn = ops.reshape(blocks[:, :, AROUND - 1 : -1], (1, heads, -1))

        def gather(x):
            """Returns the keys of each row, in the order of `blocks_of_rows`: (B, S, H, K) -> (B, H, n - 2, (5 + r) b, K).

            Blocks at known places are slices, whose gradient takes a processor less time than that of what is gathered.
            """
            x = ops.reshape(heads_first(x), (batch, heads, count, size * width))
            first, last = (ops.repeat(each, count - 2, axis=2) for each in (x[:, :, :1], x[:, :, -1:]))
            random = take_rows(x, drawn)
            random = ops.reshape(random, (batch, heads, count - 2, self.count * size * width))
            found = ops.concatenate([first, x[:, :, :-2], x[:, :, 1:-1], x[:, :, 2:], random, last], axis=3)
            return ops.reshape(found, (batch, heads, count - 2, listed * size, width))

        real = ops.reshape(ops.cast(real, "float32"), (batch, 1, count, size))
        real = take_rows(ops.broadcast_to(real, (batch, heads, count, size)), indices)
        real = ops.reshape(real, (batch, heads, count - 2, listed, size)) * ops.expand_dims(
            ops.cast(counts, "float32"), -1
        )
        real = ops.reshape(real, (batch, heads, count - 2, 1, listed * size))
        scores = ops.einsum("bhnqk,bhnsk->bhnqs", query * width**-0.5, gather(key))
        weights = ops.softmax(ops.cast(scores, "float32") + (1.0 - real) * HIDDEN, axis=-1)
        weights = self.dropout(ops.cast(weights, value.dtype), training=training)
        mixed = ops.einsum("bhnqs,bhnsk->bhnqk", weights, gather(value))
        return heads_first(ops.reshape(mixed, (batch, heads, (count - 2) * size, width)))

    def listings(self, length: int):
        """Returns how often each query lists each key, float32 (H, L, L), for the explicit computation."""
        size = self.block_size
        if length <= self.short:
            return ops.ones((self.num_heads, length, length))
        count = -(-length // size)
        blocks, counts = self.blocks_of_rows(count)
        rows = ops.one_hot(blocks, count, dtype="float32") * ops.expand_dims(ops.cast(counts, "float32"), -1)
        rows = ops.pad(ops.sum(rows, axis=2), ((0, 0), (1, 1), (0, 0)), constant_values=1.0)  # (H, n, n)
        return ops.repeat(ops.repeat(rows, size, axis=1), size, axis=2)[:, :length, :length]

    def reach(self, length):
        return self.listings(length) > 0

    def probabilities(self, x, visible=None):
        listed = ops.expand_dims(self.listings(x.shape[1]), 0)
        padding = self.supported(visible).padding
        if padding is not None:
            listed = listed * ops.cast(row(padding), "float32")
        scores = ops.einsum("blhk,bshk->bhls", self.query(x) * self.head_dim**-0.5, self.key(x))
        weights = ops.exp(ops.cast(scores, "float32") - ops.max(scores, axis=-1, keepdims=True)) * listed
        return weights / ops.maximum(ops.sum(weights, axis=-1, keepdims=True), 1e-30)
