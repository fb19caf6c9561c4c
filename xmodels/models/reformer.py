"""Reformer: The Efficient Transformer (Kitaev, Kaiser, Levskaya, 2020, arXiv 2001.04451)."""

import dataclasses
import math
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.layers.attention.local_chunks import LocalChunks
from xmodels.layers.attention.lsh import ALL, TRAX, LshAttention
from xmodels.layers.attention.places import positions_of
from xmodels.layers.attention.visible import Visible
from xmodels.layers.axial_positions import AxialPositions
from xmodels.layers.dropout import Dropout
from xmodels.layers.embeddings import positions_of as all_positions
from xmodels.layers.feedforward import FeedForward
from xmodels.layers.initialization import Initialization, gpt
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.layers.reversible import ReversibleBlock, run_reversibly
from xmodels.models.backbone import Backbone
from xmodels.models.config import LARGEST, NOTHING, AttentionConfig

LOCAL, LSH = "local", "lsh"


@dataclasses.dataclass(frozen=True)
class ReformerConfig(AttentionConfig):
    """Layers of two kinds of attention in turn.

    Attributes:
        attention: the kinds of the first layers, `local` or `lsh`, after which they begin anew: "local,lsh".
        head_dim: by default `hidden_dim` / `num_heads`.
        local_chunk_size, lsh_chunk_size: tokens of a chunk in layers of each kind; both see the chunk before as well.
        num_hashes: rounds of hashing.
        num_buckets: an even number, or those of several hashes whose tuples are the buckets. By default twice as many as the longest
            text has chunks.
        axial_shape: rows and columns of the grid of positions. By default the smallest square or nearly so.
        axial_dims: the widths of both parts of a position, which sum to `hidden_dim`; by default a quarter and the rest.
        position_stddev: of the initial positions.
        feedforward_chunk_size, head_chunk_size: tokens for which the feed-forward layers, and in training the logits, are computed at
            once; 0 for all.
        attention_dropout, local_attention_dropout: of the probabilities of layers of LSH, and of local ones.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {
        "feedforward_chunk_size": (0, LARGEST), "head_chunk_size": (0, LARGEST), "position_stddev": (0, 100)
    }  # fmt: skip
    of_no_weight: ClassVar[frozenset[str]] = frozenset({
        "local_chunk_size", "lsh_chunk_size", "num_hashes", "num_buckets", "feedforward_chunk_size", "head_chunk_size"
    })  # fmt: skip

    max_sequence_length: int = 4096
    attention: str = "local,lsh"
    head_dim: int | None = None
    local_chunk_size: int = 64
    lsh_chunk_size: int = 64
    num_hashes: int = 2
    num_buckets: tuple[int, ...] = ()
    axial_shape: tuple[int, ...] = ()
    axial_dims: tuple[int, ...] = ()
    position_stddev: float = 0.02
    feedforward_chunk_size: int = 0
    head_chunk_size: int = 0
    attention_dropout: float = 0.0
    local_attention_dropout: float = 0.0
    activation: str = "relu"
    layer_norm_epsilon: float = 1e-12
    initializer_stddev: float = 0.02

    @property
    def output_dim(self) -> int:
        """The width of the states that the network returns: both streams beside each other."""
        return 2 * self.hidden_dim

    @property
    def kinds(self) -> list[str]:
        """The kind of attention of each layer."""
        kinds = [kind.strip() for kind in self.attention.split(",")]
        return [kinds[index % len(kinds)] for index in range(self.num_layers)]

    @property
    def grid(self) -> tuple[int, ...]:
        """Rows and columns of the positions."""
        return self.axial_shape or default_grid(self.max_sequence_length)

    @property
    def position_dims(self) -> tuple[int, ...]:
        """The widths of both parts of a position."""
        return self.axial_dims or default_dims(self.hidden_dim)

    def keys_per_query(self, length):
        sizes = {LOCAL: 2 * self.local_chunk_size, LSH: 2 * self.lsh_chunk_size * self.num_hashes}
        return min(length, max(sizes[kind] for kind in self.kinds))

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `TokenConfig`: both streams of the last layer, the activations of one layer, and the buckets of all."""
        one = dataclasses.replace(self, num_layers=1)
        buckets = 4 * self.num_heads * self.num_hashes * self.kinds.count(LSH)
        return AttentionConfig.kept_bytes(one, length) + 8 * self.hidden_dim + buckets

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        for kind in self.attention.split(","):
            if kind.strip() not in (LOCAL, LSH):
                raise CheckpointError(
                    f"{source}: `{spelled.get('attention', 'attention')}` must name the kinds of the first layers, {LOCAL} or {LSH}, "
                    f"with commas between. Found: {self.attention!r:.60}."
                )
        if any(count % 2 for count in self.num_buckets):
            raise CheckpointError(
                f"{source}: `num_buckets` must be even numbers. Found: {list(self.num_buckets)!r:.60}."
            )
        shape, dims = (spelled.get(name, name) for name in ("axial_shape", "axial_dims"))
        if len(self.grid) != 2 or math.prod(self.grid) < self.max_sequence_length:
            raise CheckpointError(
                f"{source}: `{shape}` must be two numbers whose product is the number of positions, {self.max_sequence_length}, or "
                f"more. Found: {list(self.grid)!r:.60}."
            )
        if len(self.position_dims) != 2 or sum(self.position_dims) != self.hidden_dim or min(self.position_dims) < 1:
            raise CheckpointError(
                f"{source}: `{dims}` must be two numbers whose sum is `{spelled.get('hidden_dim', 'hidden_dim')}`, {self.hidden_dim}. "
                f"Found: {list(self.position_dims)!r:.60}."
            )


def default_grid(length: int) -> tuple[int, int]:
    """Returns the rows and columns of the smallest grid of `length` places that has as many of both, or one row less."""
    columns = math.isqrt(length - 1) + 1
    return -(-length // columns), columns


def default_dims(hidden_dim: int) -> tuple[int, int]:
    """Returns the widths of the parts of a position: a quarter, as in most published networks, and the rest."""
    return max(1, hidden_dim // 4), hidden_dim - max(1, hidden_dim // 4)


class ReformerEmbedding(Layer):
    """token + axial position, then dropout. Call arguments as in `TokenPositionEmbedding`."""

    def __init__(self, config: ReformerConfig, **kwargs):
        super().__init__(**kwargs)
        self.max_sequence_length = config.max_sequence_length
        initializer = keras.initializers.RandomNormal(stddev=config.initializer_stddev)
        self.token = keras.layers.Embedding(config.vocabulary_size, config.hidden_dim, initializer, name="token")
        self.position = AxialPositions(config.grid, config.position_dims, config.position_stddev, name="position")
        self.dropout = Dropout(config.dropout)

    def call(self, token_ids, position_ids=None, training=None):
        if position_ids is None:
            position_ids = all_positions(token_ids, self.max_sequence_length)  # (1, L)
        return self.dropout(self.token(token_ids) + self.position(position_ids), training=training)


@keras.saving.register_keras_serializable("xmodels")
class Reformer(Backbone):
    """A stack of causal reversible blocks over two streams, both of which begin as the sum of token and axial position embeddings.

    In training only the last states of both streams are kept for the gradient (`layers.reversible`), whatever the number of layers.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens; `position_ids` int (B, L) if rows are padded
            on the left.
        visible: a `Visible`, which tokens a token attends to; by default the real ones up to itself.

    Returns:
        A dictionary of `sequence_output` (B, L, 2 D), the norm of both streams beside each other.
    """

    config_class = ReformerConfig

    def __init__(self, config: ReformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = ReformerEmbedding(config, name="embedding")
        initialization = gpt(config.initializer_stddev)
        self.blocks = [self.make_block(config, kind, index, initialization) for index, kind in enumerate(config.kinds)]
        self.norm = LayerNorm(epsilon=config.layer_norm_epsilon, name="norm")
        self.dropout = Dropout(config.dropout)

    def make_block(self, config: ReformerConfig, kind: str, index: int, initialization: Initialization):
        mixer = make_mixer(config, kind, index, initialization)
        feedforward = FeedForward(
            config.hidden_dim, config.intermediate_dim, config.activation, initialization, config.dropout
        )
        return ReversibleBlock(
            mixer, feedforward, config.dropout, config.layer_norm_epsilon, config.feedforward_chunk_size, name=f"block_{index}"
        )  # fmt: skip

    def call(self, features, visible=None, training=None):
        x = self.embedding(features["token_ids"], features.get("position_ids"), training=training)
        first = second = ops.cast(x, "float32")  # (B, L, D)
        visible = self.visible(features) if visible is None else visible
        if training and all(block.built and block.variables for block in self.blocks):
            first, second = run_reversibly(self.blocks, first, second, visible)
        else:
            for block in self.blocks:
                first, second = block(first, second, visible=visible, training=training)
        return {"sequence_output": self.dropout(self.finish(first, second), training=training)}

    def finish(self, first, second):
        """Returns the output of the network from the streams after the last block: (B, L, 2 D)."""
        return self.norm(ops.concatenate([first, second], axis=-1))

    def visible(self, features) -> Visible:
        """Returns the default `visible`: real tokens up to the query."""
        return Visible(features["padding_mask"], causal=True)

    def hidden_states(self, features, training=None):
        """Returns both streams before each block, side by side, and the output of the network: num_layers + 1 tensors (B, L, 2 D)."""
        streams = self.streams(features, training)
        return [*(ops.concatenate(each, axis=-1) for each in streams[:-1]), self.finish(*streams[-1])]

    def streams(self, features, training=None) -> list:
        """Returns both streams before each block and after the last one."""
        visible = self.visible(features)
        x = self.embedding(features["token_ids"], features.get("position_ids"), training=training)
        x = ops.cast(x, "float32")
        found = [(x, x)]
        for block in self.blocks:
            found.append(block(*found[-1], visible=visible, training=training))
        return found

    def attention_maps(self, features):
        """Returns the attention probabilities of every block, num_layers tensors float32 (B, H, L, L)."""
        visible, streams = self.visible(features), self.streams(features)
        return [block.attention_map(second, visible) for block, (_, second) in zip(self.blocks, streams, strict=False)]

    @property
    def rewinds(self) -> bool:
        return all(block.mixer.rewinds for block in self.blocks)

    @property
    def shares_past(self) -> bool:
        return all(block.mixer.shares_past for block in self.blocks)

    def start(self, batch_size: int, length: int):
        """Returns the initial `past` of `decode`, for texts of at most `length` tokens: the cache of the mixer of each block."""
        return tuple(block.start(batch_size, length) for block in self.blocks)

    def decode(self, token_ids, past, place):
        """Decodes the next L tokens of texts; arguments and results as in `Gpt`. Layers of LSH attend to all earlier tokens."""
        positions = positions_of(place, ops.shape(token_ids)[1])  # (L,)
        first = second = ops.cast(self.embedding(token_ids, ops.expand_dims(positions, 0)), "float32")
        present = []
        for block, of_block in zip(self.blocks, past, strict=True):
            first, second, of_block = block.step(first, second, of_block, place)
            present.append(of_block)
        return self.finish(first, second), tuple(present)


def make_mixer(config: ReformerConfig, kind: str, index: int, initialization: Initialization):
    """Returns the attention of a block, without biases as in the authors' code."""
    width = {"use_bias": False, "head_dim": config.head_dim}
    heads = config.num_heads, config.hidden_dim
    if kind == LOCAL:
        chunks = {"chunk_size": config.local_chunk_size, "chunks_before": 1, "chunks_after": 0}
        return LocalChunks(*heads, config.local_attention_dropout, initialization, **chunks, **width)
    count = -(-config.max_sequence_length // config.lsh_chunk_size)
    hashing = {
        "chunk_size": config.lsh_chunk_size, "chunks_after": 0, "num_hashes": config.num_hashes,
        "num_buckets": config.num_buckets or 2 * count, "key_norm": TRAX, "duplicates": ALL, "across_buckets": True, "index": index,
    }  # fmt: skip
    return LshAttention(*heads, config.attention_dropout, initialization, **hashing, **width)


def _size(num_layers: int, hidden_dim: int, num_heads: int, max_sequence_length: int, intermediate_dim: int) -> dict:
    return {
        "num_layers": num_layers, "hidden_dim": hidden_dim, "num_heads": num_heads, "intermediate_dim": intermediate_dim,
        "max_sequence_length": max_sequence_length,
    }  # fmt: skip


# base: enwik8 in the authors' configuration. large: their released network for enwik8 (`google/reformer-enwik8`). tiny and mini: ours.
_ENWIK8 = {
    "attention": "local,local,lsh,local", "local_chunk_size": 128, "lsh_chunk_size": 256, "num_buckets": (512,),
    "axial_shape": (128, 512),
    "dropout": 0.2, "attention_dropout": 0.2, "local_attention_dropout": 0.2, "feedforward_chunk_size": 8192, "head_chunk_size": 8192,
}  # fmt: skip
SIZES = {
    "tiny": _size(2, 128, 2, 1024, 512),
    "mini": _size(4, 256, 4, 4096, 1024),
    "base": {**_size(12, 768, 8, 65_536, 2048), **_ENWIK8, "head_dim": 64, "axial_dims": (256, 512)},
    "large": {
        **_size(12, 1024, 8, 65_536, 4096),
        **_ENWIK8,
        "head_dim": 128,
        "axial_dims": (256, 768),
        "num_hashes": 4,
    },
}
