"""Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context (Dai et al., 2019, arXiv 1901.02860)."""

import dataclasses
import itertools
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.layers import initialization as initializations
from xmodels.layers.adaptive import AdaptiveEmbedding, cluster_sizes, widths_of
from xmodels.layers.attention.relative import RelativeAttention
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import Block
from xmodels.layers.dropout import Dropout
from xmodels.layers.feedforward import FeedForward
from xmodels.layers.norms import LayerNorm
from xmodels.layers.positions import concatenated_sinusoid
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING, AttentionConfig


@dataclasses.dataclass(frozen=True)
class TransformerXLConfig(AttentionConfig):
    """`max_sequence_length` does not limit texts, since positions are relative.

    Attributes:
        memory_length: M, the states of each layer that are kept from earlier segments.
        head_dim: width of a head; by default `hidden_dim` / `num_heads`.
        embedding_dim, cutoffs, embedding_division, tied_projections: see `layers.adaptive`; by default one table of width
            `hidden_dim`.
        clamp_length: larger distances are treated as this one; for evaluation with long memories. Do not train with it: the
            network would learn another term for far positions.
        same_length: whether every query attends to M keys, wherever in a segment it is; for evaluation.
        pre_norm: whether norms are inside the residual branches.
        untied_biases: whether each layer has its own u and v.
    """

    max_sequence_length: int = 1_000_000
    of_no_weight: ClassVar[frozenset[str]] = frozenset({"memory_length", "clamp_length"})
    memory_length: int = 512
    head_dim: int | None = None
    embedding_dim: int | None = None
    cutoffs: tuple[int, ...] = ()
    embedding_division: int = 1
    tied_projections: str = ""
    clamp_length: int | None = None
    same_length: bool = False
    pre_norm: bool = False
    untied_biases: bool = False
    attention_dropout: float = 0.0
    activation: str = "relu"
    layer_norm_epsilon: float = 1e-5
    initializer_stddev: float = 0.02

    @classmethod
    def from_json(cls, values, source="config.json", spelled=NOTHING):
        """Works as in `AttentionConfig`; also checks that `cutoffs` increase within the vocabulary and that `hidden_dim` is
        even."""
        config = super().from_json(values, source, spelled)
        ends = (0, *config.cutoffs, config.vocabulary_size)
        if any(a >= b for a, b in itertools.pairwise(ends)):
            raise CheckpointError(
                f"{source}: `cutoffs` must rise, and end below the vocabulary of {config.vocabulary_size}. Found: "
                f"{list(config.cutoffs)}."
            )
        if set(config.tied_projections) - {"T", "F"}:  # may be longer than there are clusters, as in the size `large`
            raise CheckpointError(
                f"{source}: `tied_projections` must hold a T or an F for each cluster. Found: {config.tied_projections!r}."
            )
        if config.hidden_dim % 2:
            raise CheckpointError(f"{source}: `hidden_dim` must be even. Found: {config.hidden_dim}.")
        return config

    @property
    def states_carried(self) -> int:
        """As in `AttentionConfig`."""
        return self.memory_length

    @property
    def table_weights(self) -> int:
        """The number of weights of the token embedding: its tables and their projections."""
        widths = widths_of(self)
        rows = cluster_sizes(self) if len(widths) > 1 else [self.vocabulary_size]
        projected = [width for width in widths if len(widths) > 1 or width != self.hidden_dim]
        return sum(r * w for r, w in zip(rows, widths, strict=True)) + self.hidden_dim * sum(projected)

    def __post_init__(self):
        if self.embedding_dim is None:
            object.__setattr__(self, "embedding_dim", self.hidden_dim)
        if self.head_dim is None:
            object.__setattr__(self, "head_dim", self.hidden_dim // self.num_heads)


class RecurrentBlock(Block):
    """One layer: relative attention over memory and segment, then feed-forward.

    Call arguments:
        x: (B, N, D).
        memory: (B, M, D), the inputs of this layer in earlier segments; None without any.
        signal, content_bias, position_bias, visible: see `RelativeAttention`.

    Returns:
        (B, N, D)
    """

    def __init__(self, config: TransformerXLConfig, **kwargs):
        super().__init__(**kwargs)
        initialization = initializations.gpt(config.initializer_stddev)
        self.mixer = RelativeAttention(
            config.num_heads, config.head_dim, config.hidden_dim, config.attention_dropout, initialization
        )
        self.feedforward = FeedForward(
            config.hidden_dim, config.intermediate_dim, config.activation, initialization, config.dropout
        )
        self.mixer_norm, self.feedforward_norm = (
            LayerNorm(epsilon=config.layer_norm_epsilon, name=f"{part}_norm") for part in ("mixer", "feedforward")
        )
        self.dropout = Dropout(config.dropout)
        self.pre_norm = config.pre_norm
        if config.untied_biases:
            self.content_bias, self.position_bias = biases(self, config)

    def call(self, x, memory, signal, content_bias=None, position_bias=None, visible=None, training=None):
        content_bias, position_bias = self._biases(content_bias, position_bias)
        states = x if memory is None else ops.concatenate([memory, x], axis=1)  # (B, K, D)
        query = x
        if self.pre_norm:
            query, states = self.mixer_norm(x), self.mixer_norm(states)
        mixed = self.mixer(query, states, signal, content_bias, position_bias, visible=visible, training=training)
        return self._finish(x, mixed, training)

    def step(self, x, past, place, content_bias=None, position_bias=None, visible=None):
        """Decodes like `call`, with cached keys and values in place of the memory; see `RelativeAttention.step`."""
        content_bias, position_bias = self._biases(content_bias, position_bias)
        query = self.mixer_norm(x) if self.pre_norm else x
        mixed, past = self.mixer.step(query, past, place, content_bias, position_bias, visible)
        return self._finish(x, mixed, False), past

    def _biases(self, content_bias, position_bias):
        return (self.content_bias, self.position_bias) if content_bias is None else (content_bias, position_bias)

    def _finish(self, x, mixed, training):
        """Applies everything after the attention."""
        x = x + self.dropout(mixed, training=training)
        if self.pre_norm:
            changed = self.feedforward(self.feedforward_norm(x), training=training)
            return x + self.dropout(changed, training=training)
        x = self.mixer_norm(x)
        changed = self.feedforward(x, training=training)
        return self.feedforward_norm(x + self.dropout(changed, training=training))


@keras.saving.register_keras_serializable("xmodels")
class TransformerXL(Backbone):
    """A causal network with a memory of the states of earlier segments.

    Call arguments:
        features: `token_ids` int (B, N). Optional: `padding_mask` bool (B, N), True on real tokens, which come first; only these
            enter the memory. For a segment with a past: `memory` (B, num_layers, M, D) and `memory_filled` int (B,), how many
            of its last slots are filled.
        visible: a `Visible` over memory and segment, M + N keys; by default causal, over the filled slots.

    Returns:
        A dictionary of `sequence_output` (B, N, D) and, if a memory is given, `memory` and `memory_filled` for the next segment,
        without gradient.
    """

    config_class = TransformerXLConfig
    carries_memory = True

    def __init__(self, config: TransformerXLConfig, **kwargs):
        super().__init__(config, **kwargs)
        kernels = initializations.gpt(config.initializer_stddev)
        self.embedding = AdaptiveEmbedding(config, kernels, initializations.gpt(0.01), name="embedding")
        self.blocks = [RecurrentBlock(config, name=f"block_{i}") for i in range(config.num_layers)]
        self.biases = None if config.untied_biases else SharedBiases(config, name="biases")
        self.dropout = Dropout(config.dropout)

    def initial_memory(self, batch_size: int, memory_length: int | None = None) -> dict:
        """Returns the features `memory` and `memory_filled` for the beginning of texts: an empty memory."""
        length = self.config.memory_length if memory_length is None else memory_length
        shape = (batch_size, self.config.num_layers, length, self.config.hidden_dim)
        return {"memory": ops.zeros(shape, "float32"), "memory_filled": ops.zeros((batch_size,), "int32")}

    def call(self, features, visible=None, training=None):
        return self._run(features, visible, training)[0]

    def hidden_states(self, features, training=None):
        """Returns the input of each block and the output of the last, num_layers + 1 tensors (B, N, D)."""
        return self._run(features, None, training)[1]

    def _run(self, features, visible, training):
        token_ids = features["token_ids"]
        memory, filled = features.get("memory"), features.get("memory_filled")
        length, slots = ops.shape(token_ids)[1], 0 if memory is None else memory.shape[2]
        if memory is not None:
            memory = ops.cast(memory, self.compute_dtype)
        if visible is None:
            behind = slots - 1 if self.config.same_length and slots else None
            visible = Visible(mark_filled_slots(slots, filled, length), causal=True, window=behind)
        signal = self.dropout(self.signal(length + slots), training=training)
        shared = {} if self.biases is None else self.biases.both()
        x = self.dropout(self.embedding(token_ids), training=training)  # (B, N, D)
        states = [x]
        for i, block in enumerate(self.blocks):
            past = None if memory is None else memory[:, i]
            x = block(x, memory=past, signal=signal, visible=visible, training=training, **shared)
            states.append(x)
        outputs = {"sequence_output": self.dropout(x, training=training)}
        if memory is not None:
            outputs |= self.remember({**features, "memory": memory}, states)
        return outputs, states

    def remember(self, features, states) -> dict:
        """Returns the memory for the next segment, the features of `initial_memory`.

        Args:
            features: of this segment, with a memory.
            states: its states, the embeddings (B, N, D) and the output of each block.
        """
        return next_memory(features["memory"], features["memory_filled"], states[:-1], features.get("padding_mask"))

    def start(self, batch_size: int, length: int):
        """Returns the initial `past` of `decode`.

        It holds for each block keys and values, (B, M, H, K') each, and the projected distances, (B, M + 1, H, K'), which are the
        same for every token; and the number of filled slots, int (B,).

        Args:
            batch_size: B.
            length: most tokens of a text. M is at most this.
        """
        config = self.config
        slots = min(config.memory_length, length)
        shape = (batch_size, slots, config.num_heads, config.head_dim)
        signal = self.signal(slots + 1)
        memory = []
        for block in self.blocks:
            place = ops.expand_dims(block.mixer.position(signal), 0)  # (1, M + 1, H, K')
            place = ops.broadcast_to(place, (batch_size, *place.shape[1:]))
            memory.append((ops.zeros(shape, self.compute_dtype), ops.zeros(shape, self.compute_dtype), place))
        return tuple(memory), ops.zeros((batch_size,), "int32")

    def decode(self, token_ids, past, position):
        """Decodes the next L tokens of texts. Each attends to the last M states before it, as if read one by one with a memory.

        Args:
            token_ids: int (B, L).
            past: the result of `start` or of the previous call.
            position: ignored, since positions are relative.

        Returns:
            Their states (B, L, D), and `past` updated with these tokens.
        """
        memory, filled = past
        length, slots = token_ids.shape[1], memory[0][0].shape[1]
        behind = slots - 1 if self.config.same_length and slots else slots
        visible = Visible(mark_filled_slots(slots, filled, length), causal=True, window=behind)
        shared = {} if self.biases is None else self.biases.both()
        signal = self.signal(slots + length) if length > 1 else None
        x, present = self.embedding(token_ids), []
        for block, (key, value, place) in zip(self.blocks, memory, strict=True):
            here = place if signal is None else block.mixer.position(signal)
            x, states = block.step(x, (key, value), here, visible=visible, **shared)
            present.append((*states, place))
        return x, (tuple(present), ops.minimum(filled + length, slots))

    def signal(self, keys: int):
        """Returns the encodings of the distances K - 1, ..., 0, (K, D)."""
        distances = ops.arange(keys - 1, -1, -1, dtype="float32")
        if self.config.clamp_length:
            distances = ops.minimum(distances, float(self.config.clamp_length))
        return ops.cast(concatenated_sinusoid(distances, self.config.hidden_dim), self.compute_dtype)


class SharedBiases(keras.layers.Layer):
    """The biases u and v, if all layers share them."""

    def __init__(self, config: TransformerXLConfig, **kwargs):
        super().__init__(**kwargs)
        self.content_bias, self.position_bias = biases(self, config)
        self.built = True

    def both(self) -> dict:
        return {"content_bias": self.content_bias, "position_bias": self.position_bias}


def biases(layer: keras.layers.Layer, config: TransformerXLConfig):
    """Adds the weights u and v to a layer, (H, K') each."""
    initialization, shape = initializations.gpt(config.initializer_stddev), (config.num_heads, config.head_dim)
    return (
        layer.add_weight(shape=shape, initializer=initialization.inner(), name=name)
        for name in ("content_bias", "position_bias")
    )


def next_memory(memory, filled, entered, padding_mask=None) -> dict:
    """Returns the features `memory` and `memory_filled` for the next segment: the last M states of the memory and the real tokens.

    Args:
        memory, filled: those of this segment, (B, num_layers, M, D) and int (B,).
        entered: num_layers tensors (B, N, D), the inputs of the blocks.
        padding_mask: bool (B, N), True on real tokens, which come first; None if all are real.
    """
    (length, width), slots = entered[0].shape[1:], memory.shape[2]
    if padding_mask is None:
        count = length
        present = ops.concatenate([memory, ops.stack(entered, axis=1)], axis=2)[:, :, length:]  # (B, num_layers, M, D)
    else:
        count = ops.sum(ops.cast(padding_mask, "int32"), axis=1)  # (B,)
        present = ops.concatenate([ops.transpose(memory, (0, 2, 1, 3)), ops.stack(entered, axis=2)], axis=1)
        batch = ops.shape(present)[0]
        rows = ops.arange(batch, dtype="int32") * (slots + length) + count  # the first state that is kept
        places = ops.expand_dims(rows, 1) + ops.arange(slots, dtype="int32")  # (B, M)
        kept = ops.take(ops.reshape(present, (-1, len(entered) * width)), places, axis=0)  # whole rows, which is cheap
        present = ops.transpose(ops.reshape(kept, (-1, slots, len(entered), width)), (0, 2, 1, 3))
    return {
        "memory": ops.cast(ops.stop_gradient(present), "float32"),
        "memory_filled": ops.minimum(filled + count, slots),
    }


def mark_filled_slots(slots: int, filled, length: int):
    """Marks the last `filled`, int (B,), of M memory slots and all N tokens after them: bool (B, M + N); None without a memory."""
    return ops.expand_dims(ops.arange(slots + length), 0) >= slots - ops.expand_dims(filled, 1) if slots else None


def _size(num_layers, hidden_dim, num_heads, head_dim, intermediate_dim, memory_length, dropout=0.1, **more) -> dict:
    return {
        "num_layers": num_layers, "hidden_dim": hidden_dim, "num_heads": num_heads, "head_dim": head_dim,
        "intermediate_dim": intermediate_dim, "memory_length": memory_length, "dropout": dropout, **more,
    }  # fmt: skip


# As in the authors' scripts: base and large for WikiText-103, characters_12 and _24 for enwik8 and text8, one_billion for
# One Billion Word. Cutoffs depend on the vocabulary, see `layers.adaptive.cutoffs_of`. tiny and mini are ours.
SIZES = {
    "tiny": _size(2, 128, 4, 32, 256, 64),
    "mini": _size(4, 256, 4, 64, 1024, 128),
    "base": _size(16, 410, 10, 41, 2100, 150),
    "large": _size(
        18, 1024, 16, 64, 4096, 384, 0.2, attention_dropout=0.2, embedding_division=4, tied_projections="FTTT"
    ),
    "characters_12": _size(12, 512, 8, 64, 2048, 512),
    "characters_24": _size(24, 1024, 8, 128, 3072, 768, 0.15, attention_dropout=0.15),
    "one_billion": _size(
        24,
        1280,
        16,
        80,
        8192,
        32,
        0.05,
        attention_dropout=0.05,
        embedding_division=4,
        tied_projections="FFFF",
        untied_biases=True,
        initializer_stddev=0.005,
    ),  # fmt: skip
}
