"""Compressive Transformers for Long-Range Sequence Modelling (Rae et al., 2019, arXiv 1911.05507): what leaves the memory of a
Transformer-XL is compressed and kept."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers import costs
from xmodels.layers.attention.core import attend
from xmodels.layers.initialization import GlorotUniform
from xmodels.layers.layer import Layer
from xmodels.models import transformer_xl
from xmodels.models.config import LARGEST
from xmodels.models.transformer_xl import TransformerXL, TransformerXLConfig

CONVOLUTION, MEAN, MAX = "convolution", "mean", "max"
COST = "attention_reconstruction"  # in the log


@dataclasses.dataclass(frozen=True)
class CompressiveTransformerConfig(TransformerXLConfig):
    """A Transformer-XL's, with a second memory.

    Attributes:
        compressed_length: C, the compressed states that are kept; 0 for a Transformer-XL.
        compression_rate: c, how many states that leave the memory become one.
        compression: how: `convolution`, learned, with a stride of its width; or their `mean` or `max` in each dimension.
        reconstruction_weight: of the cost that trains the convolutions.
    """

    bounds: ClassVar[dict] = {"compressed_length": (0, LARGEST), "reconstruction_weight": (0, 1e6)}
    choices = TransformerXLConfig.choices | {"compression": (CONVOLUTION, MEAN, MAX)}

    compressed_length: int = 512
    compression_rate: int = 4
    compression: str = CONVOLUTION
    reconstruction_weight: float = 1.0

    @property
    def states_carried(self) -> int:
        return slots_of(self.compressed_length, self.memory_length, self.compression_rate)

    def check(self, source, spelled=transformer_xl.NOTHING):
        super().check(source, spelled)
        if self.compressed_length and self.compression == CONVOLUTION:
            self._check_table("compression_rate", "hidden_dim", source, spelled)


def slots_of(compressed: int, memory: int, rate: int) -> int:
    """Returns the most states of both memories. Up to c - 1 that have left the memory stay as they are until c are together."""
    return memory + compressed + rate - 1 if compressed else memory


class Compression(Layer):
    """Makes one state of c neighbours: (B, G, c, D) -> (B, G, D). A convolution without overlap, or a pooling."""

    def __init__(self, config: CompressiveTransformerConfig, **kwargs):
        super().__init__(**kwargs)
        rate, width = config.compression_rate, config.hidden_dim
        self.pool = {MEAN: ops.mean, MAX: ops.max}.get(config.compression)
        self.rate, self.width = rate, width
        if self.pool is None:
            self.convolution = keras.layers.Dense(width, kernel_initializer=GlorotUniform(), name="convolution")
            self.convolution.build((None, None, rate * width))
        self.built = True

    def call(self, x):
        if self.pool is not None:
            return self.pool(x, axis=2)
        batch, groups = ops.shape(x)[:2]
        return self.convolution(ops.reshape(x, (batch, groups, self.rate * self.width)))


@keras.saving.register_keras_serializable("xmodels")
class CompressiveTransformer(TransformerXL):
    """A Transformer-XL that compresses the states which leave its memory, and attends to them too (section 3).

    Keys are the compressed states, the memory and the segment, one behind the other; distances count them so. The states of both
    memories lie in one tensor, right-aligned. The loss of the next tokens trains no compression. It is trained to keep what
    attention finds: the attention of the segment to what it compresses, by content, should be that to the compressed states
    (section 3.2). That cost changes no other weight.

    Call arguments:
        features: as of `TransformerXL`; for a segment with a past also `memory_compressed` int (B,), how many of the filled slots
            hold compressed states. These come first.

    Returns:
        As `TransformerXL`, with `memory_compressed`.
    """

    config_class = CompressiveTransformerConfig

    def __init__(self, config: CompressiveTransformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        count = config.num_layers if config.compressed_length else 0
        self.compressions = [Compression(config, name=f"compression_{index}") for index in range(count)]

    def initial_memory(self, batch_size: int, memory_length: int | None = None) -> dict:
        config = self.config
        memory = config.memory_length if memory_length is None else memory_length
        found = super().initial_memory(batch_size, slots_of(config.compressed_length, memory, config.compression_rate))
        return {**found, "memory_compressed": ops.zeros((batch_size,), "int32")}

    def call(self, features, visible=None, training=None):
        if self.compressions and features.get("memory") is None:
            self.add_cost(0.0, features)  # every pass has the same costs
        return super().call(features, visible, training)

    def remember(self, features, states):
        if not self.compressions:
            return {**super().remember(features, states), "memory_compressed": features["memory_compressed"]}
        memory, (length, width) = features["memory"], states[0].shape[1:]
        rate, layers, slots = self.config.compression_rate, len(self.blocks), memory.shape[2]
        most = max(0, slots - self.config.compressed_length - (rate - 1))  # M
        filled, compressed = features["memory_filled"], features["memory_compressed"]
        count = ops.cast(ops.sum(real_tokens(features), axis=1), "int32")  # (B,)
        plain = filled - compressed + count  # states that are not compressed yet
        groups = ops.maximum(plain - most, 0) // rate  # (B,), to compress now
        kept = plain - groups * rate  # from M to M + c - 1, once the memory is full
        most_groups = max(2, (length + rate - 1) // rate)  # G; Keras warns of a softmax over one

        # All states side by side, those of all layers in one row: (B, T + N, layers * D).
        entered = ops.stack(states[:-1], axis=2)  # (B, N, layers, D)
        known = ops.concatenate([ops.transpose(memory, (0, 2, 1, 3)), entered], axis=1)
        known = ops.stop_gradient(ops.reshape(known, (-1, slots + length, layers * width)))
        first = slots - filled + compressed  # the slot of the oldest state that is not compressed
        leaving = ops.expand_dims(first, 1) + ops.arange(most_groups * rate, dtype="int32")  # (B, G c)
        leaving = take_rows(known, ops.minimum(leaving, slots + length - 1))
        leaving = ops.reshape(leaving, (-1, most_groups, rate, layers, width))
        made = [each(leaving[:, :, :, index]) for index, each in enumerate(self.compressions)]  # (B, G, D) each
        there = ops.arange(most_groups, dtype="int32") < ops.expand_dims(groups, 1)  # (B, G)
        if costs.is_collecting():
            self.add_cost(self.reconstruction_error(states[:-1], leaving, made, there, real_tokens(features)), features)

        made = ops.reshape(ops.stack(made, axis=2), (-1, most_groups, layers * width))
        pool = ops.concatenate([known, ops.stop_gradient(ops.cast(made, known.dtype))], axis=1)
        place = ops.arange(slots - 1, -1, -1, dtype="int32")  # of each slot from the right, (T,)
        count, groups, kept, first = (ops.expand_dims(each, 1) for each in (count, groups, kept, first))
        older = place - kept  # of a compressed state, from the newest
        source = ops.where(
            older < 0,
            slots + count - 1 - place,
            ops.where(older < groups, slots + length + groups - 1 - older, first - 1 - (older - groups)),
        )  # (B, T)
        memory = ops.reshape(take_rows(pool, ops.maximum(source, 0)), (-1, slots, layers, width))
        compressed = ops.minimum(compressed + groups[:, 0], self.config.compressed_length)
        return {
            "memory": ops.cast(ops.transpose(memory, (0, 2, 1, 3)), "float32"),
            "memory_filled": kept[:, 0] + compressed,
            "memory_compressed": compressed,
        }

    def reconstruction_error(self, entered, leaving, made, there, real):
        """Returns the mean squared difference between what attention finds before compression and after it (algorithm 2), summed
        over tokens and layers.

        Args:
            entered: the inputs of the blocks, (B, N, D) each.
            leaving: (B, G, c, layers, D), what is compressed.
            made: for each layer what it became, (B, G, D).
            there: bool (B, G), which groups there are.
            real: float32 (B, N), 1 for real tokens of the segment.
        """
        counted = real * ops.cast(ops.any(there, axis=1, keepdims=True), "float32")  # (B, N)
        before = ops.repeat(there, self.config.compression_rate, axis=1)[:, None, None]  # (B, 1, 1, G c)
        after, total = there[:, None, None], 0.0  # (B, 1, 1, G)
        for index, block in enumerate(self.blocks):
            old = leaving[:, :, :, index]
            old = ops.reshape(old, (ops.shape(old)[0], -1, old.shape[-1]))  # (B, G c, D)
            query = fixed_projection(block, block.mixer.query, ops.stop_gradient(entered[index]))
            expected = attend(query, *key_and_value(block, old), before)
            found = attend(query, *key_and_value(block, made[index]), after)
            difference = ops.cast(found, "float32") - ops.cast(expected, "float32")
            total = total + ops.sum(ops.mean(ops.square(difference), axis=(2, 3)) * counted)
        return total

    def add_cost(self, total, features) -> None:
        """Adds a sum over tokens and layers to the loss, as a mean."""
        weight = len(self.blocks) * ops.sum(real_tokens(features))
        costs.add(COST, self.config.reconstruction_weight * total, weight)

    def start(self, batch_size: int, length: int):
        """Returns the initial `past` of `decode`: the memory, (B, num_layers, T, D), and the numbers of its filled and compressed
        slots, int (B,) each. Arguments as in `TransformerXL`."""
        found = self.initial_memory(batch_size, min(self.config.memory_length, length))
        return tuple(found[name] for name in ("memory", "memory_filled", "memory_compressed"))

    def decode(self, token_ids, past, position):
        """Decodes as if each of the next L tokens were a segment. Arguments and results as in `TransformerXL`."""

        def read(past, tokens):
            names = ("memory", "memory_filled", "memory_compressed")
            outputs = self({"token_ids": ops.expand_dims(tokens, 1), **dict(zip(names, past, strict=True))})
            return tuple(outputs[name] for name in names), outputs["sequence_output"][:, 0]

        if token_ids.shape[1] == 1:
            past, states = read(past, token_ids[:, 0])
            return ops.expand_dims(states, 1), past
        length, tokens = ops.shape(token_ids)[1], ops.transpose(token_ids)  # (L, B)
        shape = (length, ops.shape(token_ids)[0], self.config.hidden_dim)

        def advance(place, past, states):
            past, new = read(past, ops.take(tokens, place, axis=0))
            return place + 1, past, ops.slice_update(states, (place, 0, 0), ops.expand_dims(new, 0))

        initial = ops.zeros((), "int32"), past, ops.zeros(shape, self.compute_dtype)
        _, past, states = ops.while_loop(lambda place, past, states: place < length, advance, initial)
        return ops.transpose(states, (1, 0, 2)), past


def real_tokens(features):
    """Returns 1 for the real tokens of a segment and 0 for its padding, float32 (B, N)."""
    real = features.get("padding_mask")
    return ops.ones(ops.shape(features["token_ids"]), "float32") if real is None else ops.cast(real, "float32")


def take_rows(x, places):
    """Returns rows of each text: x (B, S, W), places int (B, R) -> (B, R, W). Whole rows, which is cheap."""
    batch, count = ops.shape(x)[:2]
    rows = ops.expand_dims(ops.arange(batch, dtype="int32") * count, 1) + places
    return ops.take(ops.reshape(x, (-1, x.shape[2])), rows, axis=0)


def key_and_value(block, states):
    """Returns keys and values of states (B, S, D), (B, S, H, K') each, without a gradient to the weights of the block."""
    return tuple(fixed_projection(block, layer, states) for layer in (block.mixer.key, block.mixer.value))


def fixed_projection(block, layer, x):
    """Returns the projection of x (B, S, D) by a layer of the attention of a block, (B, S, H, K'), with a gradient to x only."""
    if block.pre_norm:
        norm = block.mixer_norm
        centred = ops.cast(x, "float32") - ops.mean(ops.cast(x, "float32"), axis=-1, keepdims=True)
        scaled = centred * ops.rsqrt(ops.mean(ops.square(centred), axis=-1, keepdims=True) + norm.epsilon)
        x = ops.cast(scaled * ops.stop_gradient(norm.gamma) + ops.stop_gradient(norm.beta), x.dtype)
    return ops.einsum("bsd,dhk->bshk", x, ops.cast(ops.stop_gradient(layer.kernel), x.dtype))


def _compressive(size: dict, compressed_length: int, compression_rate: int, **more) -> dict:
    return {**size, "compressed_length": compressed_length, "compression_rate": compression_rate, **more}


# large: WikiText-103, characters_24: enwik8, both in section 4; base, mini and tiny: Transformer-XL's with a second memory, ours.
SIZES = {
    "tiny": _compressive(transformer_xl.SIZES["tiny"], 64, 4),
    "mini": _compressive(transformer_xl.SIZES["mini"], 128, 4),
    "base": _compressive(transformer_xl.SIZES["base"], 150, 3),
    "large": _compressive(transformer_xl.SIZES["large"], 1500, 4, memory_length=500),
    "characters_24": _compressive(transformer_xl.SIZES["characters_24"], 1152, 3),
}
