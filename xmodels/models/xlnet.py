"""XLNet: Generalized Autoregressive Pretraining for Language Understanding (Yang et al., 2019, arXiv 1906.08237)."""

import dataclasses
from typing import Any, ClassVar

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from data_pipelines.features import Feature
from xmodels.layers import initialization as initializations
from xmodels.layers.activations import ACTIVATIONS
from xmodels.layers.attention.two_stream import TwoStreamAttention
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import Block
from xmodels.layers.dropout import Dropout
from xmodels.layers.feedforward import FeedForward
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.layers.positions import concatenated_sinusoid
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING, AttentionConfig

BIASES = ("content_bias", "position_bias", "segment_bias")  # u, v and s


@dataclasses.dataclass(frozen=True)
class XLNetConfig(AttentionConfig):
    """`max_sequence_length` does not limit texts, since positions are relative.

    Attributes:
        memory_length: M, the states of each layer that are kept from earlier segments.
        reuse_length: how many of the first states of a segment enter the memory; None for all. The rest of the segment is
            read again as part of the next one.
        head_dim: width of a head; None for `hidden_dim` / `num_heads`, and set to None if it equals that.
        clamp_length: larger distances, in both directions, are treated as this one; None for no limit.
        untied_biases: whether each layer has its own u, v and s.
        attention_type: "bi" for both directions, or "uni" for causal attention.
        same_length: with "uni", whether every query attends to as many keys before it as the memory has slots, wherever in a
            segment it is.
        activation: "gelu_tanh" in the released code, "gelu", the erf form, in Hugging Face's.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {"activation": tuple(ACTIVATIONS), "attention_type": ("bi", "uni")}
    of_no_weight: ClassVar[frozenset[str]] = frozenset({"memory_length", "reuse_length", "clamp_length"})

    max_sequence_length: int = 1_000_000
    memory_length: int = 384
    reuse_length: int | None = None
    head_dim: int | None = None
    clamp_length: int | None = None
    untied_biases: bool = True
    attention_type: str = "bi"
    same_length: bool = False
    attention_dropout: float = 0.1
    activation: str = "gelu_tanh"
    layer_norm_epsilon: float = 1e-12
    initializer_stddev: float = 0.02

    @classmethod
    def from_json(cls, values, source="config.json", spelled=NOTHING):
        """Works as in `AttentionConfig`; also raises a CheckpointError if `hidden_dim` is odd."""
        config = super().from_json(values, source, spelled)
        if config.hidden_dim % 2:
            raise CheckpointError(f"{source}: `hidden_dim` must be even. Found: {config.hidden_dim}.")
        return config

    @property
    def states_carried(self) -> int:
        """As in `AttentionConfig`."""
        return self.memory_length

    @property
    def width_of_head(self) -> int:
        return self.head_dim or self.hidden_dim // self.num_heads

    def __post_init__(self):
        if self.head_dim == self.hidden_dim // self.num_heads:
            object.__setattr__(self, "head_dim", None)  # so that it follows if `hidden_dim` is replaced


class TwoStreamEmbedding(Layer):
    """The inputs of both streams: unscaled token embeddings for the content, and one learned vector for all targets.

    Call arguments:
        token_ids: int (B, N).

    Returns:
        (B, N, D)
    """

    def __init__(self, config: XLNetConfig, **kwargs):
        super().__init__(**kwargs)
        initialization = initializations.gpt(config.initializer_stddev)
        self.token = keras.layers.Embedding(
            config.vocabulary_size, config.hidden_dim, embeddings_initializer=initialization.inner(), name="token"
        )
        self.query = self.add_weight(shape=(config.hidden_dim,), initializer=initialization.inner(), name="query")
        self.dropout = Dropout(config.dropout)

    def call(self, token_ids, training=None):
        return self.dropout(self.token(token_ids), training=training)

    def targets(self, positions, training=None):
        """Returns the inputs of the query stream for targets at positions (B, P): (B, P, D)."""
        shape = (*ops.shape(positions), self.query.shape[0])
        return self.dropout(ops.broadcast_to(ops.cast(self.query, self.compute_dtype), shape), training=training)


class TwoStreamBlock(Block):
    """One layer: attention over memory and segment, then feed-forward, on both streams with the same weights.

    Call arguments:
        x: (B, N, D), the content stream.
        memory: (B, M, D), the inputs of this layer in earlier segments; None without any.
        targets: (B, P, D), the query stream; None without one.
        biases: those that all layers share; None if each has its own.
        others: see `TwoStreamAttention`.

    Returns:
        A dictionary of `content` (B, N, D) and, with a query stream, `targets` (B, P, D).
    """

    def __init__(self, config: XLNetConfig, **kwargs):
        super().__init__(**kwargs)
        initialization = initializations.gpt(config.initializer_stddev)
        self.mixer = TwoStreamAttention(
            config.num_heads, config.width_of_head, config.hidden_dim, config.attention_dropout, initialization
        )
        self.feedforward = FeedForward(
            config.hidden_dim, config.intermediate_dim, config.activation, initialization, config.dropout
        )
        self.mixer_norm, self.feedforward_norm = (
            LayerNorm(epsilon=config.layer_norm_epsilon, name=f"{part}_norm") for part in ("mixer", "feedforward")
        )
        self.dropout = Dropout(config.dropout)
        self.biases = RelativeBiases(config, name="biases") if config.untied_biases else None

    def call(
        self, x, signal, attention_mask, memory=None, biases=None, differs=None, is_reversed=None, targets=None, target_positions=None,
        target_attention_mask=None, training=None,
    ):  # fmt: skip
        states = x if memory is None else ops.concatenate([memory, x], axis=1)  # (B, K, D)
        mixed, mixed_targets = self.mixer(
            x, states, signal, biases or self.biases.all(), attention_mask, differs, is_reversed, targets, target_positions,
            target_attention_mask, training=training,
        )  # fmt: skip
        outputs = {"content": self._finish(x, mixed, training)}
        if targets is not None:
            outputs["targets"] = self._finish(targets, mixed_targets, training)
        return outputs

    def attention_map(self, x, signal, attention_mask, biases=None, differs=None, is_reversed=None):
        """Returns the attention probabilities of the content stream without a memory, float32 (B, H, N, N), for pictures."""
        return self.mixer.content_probabilities(
            x, signal, biases or self.biases.all(), attention_mask, differs, is_reversed
        )

    def _finish(self, x, mixed, training):
        """Applies everything after the attention."""
        x = self.mixer_norm(x + self.dropout(mixed, training=training))
        changed = self.feedforward(x, training=training)
        return self.feedforward_norm(x + self.dropout(changed, training=training))


class RelativeBiases(keras.layers.Layer):
    """The biases u, v and s that are added to queries in the scores of content, position and segment."""

    def __init__(self, config: XLNetConfig, **kwargs):
        super().__init__(**kwargs)
        initialization, shape = initializations.gpt(config.initializer_stddev), (config.num_heads, config.width_of_head)
        for name in BIASES:
            setattr(self, name, self.add_weight(shape=shape, initializer=initialization.inner(), name=name))
        self.built = True

    def all(self) -> dict:
        """Returns the biases by name, (H, K') each."""
        return {name: getattr(self, name) for name in BIASES}


@keras.saving.register_keras_serializable("xmodels")
class XLNet(Backbone):
    """Transformer-XL's layers with bidirectional attention, and a query stream that predicts tokens it does not attend to.

    Call arguments:
        features: `token_ids` int (B, N), `segment_ids` int (B, N), `padding_mask` bool (B, N); for a segment with a past `memory`
            (B, num_layers, M, D) and `memory_filled` int (B,), how many of its last slots are filled. All states in the memory
            count as segment 0, as in the released code.

            For the query stream: `mask_positions` int (B, P), the positions of the targets; `query_mask` bool (B, P, N), which
            tokens each target attends to, or (B, P, M + N) to restrict the memory too. Optional: `content_mask` bool (B, N, N),
            which tokens each token attends to, by default all real ones and itself; `is_reversed` int (B,), 1 for rows that
            read backwards.

    Returns:
        A dictionary of `sequence_output` (B, N, D); with a query stream `query_output` (B, P, D); and, if a memory is given,
        `memory` and `memory_filled` for the next segment, without gradient.
    """

    config_class = XLNetConfig
    carries_memory = True
    reads = Backbone.reads | {"segment_ids": Feature((None,))}
    may_read = {
        "mask_positions": Feature((None,)),
        "query_mask": Feature((None, None), "bool"),
        "content_mask": Feature((None, None), "bool"),
        "is_reversed": Feature(()),
    }

    def __init__(self, config: XLNetConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = TwoStreamEmbedding(config, name="embedding")
        self.blocks = [TwoStreamBlock(config, name=f"block_{i}") for i in range(config.num_layers)]
        self.biases = None if config.untied_biases else RelativeBiases(config, name="biases")
        self.dropout = Dropout(config.dropout)

    def initial_memory(self, batch_size: int, memory_length: int | None = None) -> dict:
        """Returns the features `memory` and `memory_filled` for the beginning of texts: an empty memory."""
        length = self.config.memory_length if memory_length is None else memory_length
        shape = (batch_size, self.config.num_layers, length, self.config.hidden_dim)
        return {"memory": ops.zeros(shape, "float32"), "memory_filled": ops.zeros((batch_size,), "int32")}

    def call(self, features, training=None):
        return self._run(features, training)[0]

    def hidden_states(self, features, training=None):
        """Returns the input of each block and the output of the last: num_layers + 1 dictionaries of `content` (B, N, D) and, with a
        query stream, `targets` (B, P, D)."""
        return self._run(features, training)[1]

    def attention_maps(self, features):
        """Returns the attention probabilities of the content stream without a memory, num_layers tensors float32 (B, H, N, N)."""
        read = {name: features[name] for name in features if name not in ("memory", "memory_filled", "query_mask")}
        states, shared = self.hidden_states(read), self._shared_arguments(read, 0, False)
        return [block.attention_map(x["content"], **shared) for block, x in zip(self.blocks, states, strict=False)]

    def _run(self, features, training):
        memory, slots = features.get("memory"), 0
        if memory is not None:
            memory, slots = ops.cast(memory, self.compute_dtype), memory.shape[2]
        shared = self._shared_arguments(features, slots, training)
        states = {"content": self.embedding(features["token_ids"], training=training)}
        if "query_mask" in features:
            states["targets"] = self.embedding.targets(features["mask_positions"], training)
        passed = [states]
        for i, block in enumerate(self.blocks):
            past = None if memory is None else memory[:, i]
            states = block(states["content"], memory=past, targets=states.get("targets"), training=training, **shared)
            passed.append(states)
        outputs = {"sequence_output": self.dropout(states["content"], training=training)}
        if "targets" in states:
            outputs["query_output"] = self.dropout(states["targets"], training=training)
        if memory is not None:
            outputs |= self._next_memory(memory, features["memory_filled"], [s["content"] for s in passed[:-1]])
        return outputs, passed

    def _shared_arguments(self, features, slots: int, training) -> dict[str, Any]:
        """Returns the arguments that are the same for all blocks."""
        length = ops.shape(features["token_ids"])[1]
        shared: dict[str, Any] = {"signal": self.dropout(self.signal(features, slots + length), training=training)}
        shared["biases"] = None if self.biases is None else self.biases.all()
        shared["attention_mask"] = self._attention_mask(features, slots)
        if "segment_ids" in features:
            segments = features["segment_ids"]  # (B, N)
            everywhere = ops.pad(segments, ((0, 0), (slots, 0)))  # the memory is of segment 0
            shared["differs"] = ops.not_equal(ops.expand_dims(segments, 2), ops.expand_dims(everywhere, 1))  # (B, N, K)
        if "is_reversed" in features:
            shared["is_reversed"] = features["is_reversed"]
        if "query_mask" in features:
            mask = features["query_mask"]
            shared["target_positions"] = features["mask_positions"]
            shared["target_attention_mask"] = self._with_memory(
                mask, features, slots if mask.shape[2] == features["token_ids"].shape[1] else 0
            )
            if self.config.attention_type == "uni":
                before = ops.take(self._before(length, slots)[0, 0], features["mask_positions"], axis=0)  # (B, P, K)
                shared["target_attention_mask"] = ops.logical_and(
                    shared["target_attention_mask"], ops.expand_dims(before, 1)
                )
        return shared

    def _attention_mask(self, features, slots: int):
        """Returns the mask of the content stream, bool (B, 1, N, K), True where a token may attend to a key."""
        length = ops.shape(features["token_ids"])[1]
        itself = same_place(length)
        mask = features.get("content_mask")
        if mask is None:
            real = ops.expand_dims(ops.cast(features["padding_mask"], "bool"), 1)  # (B, 1, N)
            mask = ops.logical_or(real, ops.expand_dims(itself, 0))
        attention_mask = self._with_memory(mask, features, slots)
        if self.config.attention_type == "uni":
            # As in the released code, a token always attends to itself.
            itself = ops.pad(itself, ((0, 0), (slots, 0)))
            attention_mask = ops.logical_or(ops.logical_and(attention_mask, self._before(length, slots)), itself)
        return attention_mask

    def _before(self, length: int, slots: int):
        """Returns the causal mask, bool (1, 1, N, K): keys up to each query, with `same_length` only the last of them."""
        window = slots if self.config.same_length else None
        return Visible(causal=True, window=window).dense(slots + ops.arange(length, dtype="int32"), slots + length)

    def _with_memory(self, mask, features, slots: int):
        """Extends a mask with the filled slots of the memory, visible to all rows: bool (B, rows, N) -> (B, 1, rows, K)."""
        if not slots:
            return ops.expand_dims(mask, 1)
        filled = ops.arange(slots, dtype="int32") >= slots - ops.expand_dims(features["memory_filled"], 1)  # (B, M)
        filled = ops.broadcast_to(ops.expand_dims(filled, 1), (*ops.shape(mask)[:2], slots))
        return ops.expand_dims(ops.concatenate([filled, mask], axis=2), 1)

    def _next_memory(self, memory, filled, entered) -> dict[str, Any]:
        """Returns the memory for the next segment: the past, then the first `reuse_length` inputs of each block."""
        length = entered[0].shape[1]
        reused = min(self.config.reuse_length or length, length)
        present = ops.concatenate([memory, ops.stack([x[:, :reused] for x in entered], axis=1)], axis=2)
        slots = min(self.config.memory_length, present.shape[2])
        present = present[:, :, present.shape[2] - slots :]
        return {
            "memory": ops.cast(ops.stop_gradient(present), "float32"),
            "memory_filled": ops.minimum(filled + reused, slots),
        }

    def signal(self, features, keys: int):
        """Returns the encodings of the distances K - 1, ..., -N + 1, (K + N - 1, D); with `is_reversed` also those of the opposite
        distances after them."""
        length = ops.shape(features["token_ids"])[1]
        distances = ops.cast(keys - 1 - ops.arange(keys + length - 1, dtype="int32"), "float32")
        if "is_reversed" in features:
            distances = ops.concatenate([distances, -distances])
        if self.config.clamp_length:
            limit = float(self.config.clamp_length)
            distances = ops.clip(distances, -limit, limit)
        return ops.cast(concatenated_sinusoid(distances, self.config.hidden_dim), self.compute_dtype)


def same_place(length):
    """Returns the identity as bool (N, N): True on the diagonal."""
    places = ops.arange(length, dtype="int32")
    return ops.equal(ops.expand_dims(places, 1), ops.expand_dims(places, 0))


def _size(num_layers, hidden_dim, num_heads, intermediate_dim, memory_length=384) -> dict:
    return {
        "num_layers": num_layers, "hidden_dim": hidden_dim, "num_heads": num_heads, "intermediate_dim": intermediate_dim,
        "memory_length": memory_length,
    }  # fmt: skip


# base and large: the released networks. tiny and mini: the shapes of the small BERTs.
SIZES = {
    "tiny": _size(2, 128, 2, 512, 64),
    "mini": _size(4, 256, 4, 1024, 128),
    "base": _size(12, 768, 12, 3072),
    "large": _size(24, 1024, 16, 4096),
}
