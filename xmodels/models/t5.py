"""T5: Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (Raffel et al., 2019, arXiv 1910.10683).

Version 1.0 is the paper's; 1.1 has gated feed-forward layers and an output matrix of its own (released with Shazeer, 2020).
"""

import dataclasses
from typing import ClassVar

import keras

from xmodels.layers.blocks import PreNormBlock
from xmodels.layers.decoder_blocks import PreNormDecoderBlock
from xmodels.layers.dropout import Dropout
from xmodels.layers.feedforward import FeedForward, GatedFeedForward
from xmodels.layers.heads import tied_logits
from xmodels.layers.initialization import gpt as normal
from xmodels.layers.layer import Layer
from xmodels.layers.relative_buckets import BucketAttention, RelativeBuckets
from xmodels.models.config import AttentionConfig
from xmodels.models.transformer import Transformer


@dataclasses.dataclass(frozen=True)
class T5Config(AttentionConfig):
    """`num_layers` counts the layers of the encoder, and those of the decoder unless there is a `num_decoder_layers`.

    Attributes:
        max_sequence_length: limits sources and targets in generation; the network has no table of positions.
        head_dim: width of a head; `num_heads` * `head_dim` need not equal `hidden_dim`.
        num_buckets, max_distance: of relative positions, see `RelativeBuckets`.
        gated: whether feed-forward layers are gated (1.1).
        tied_output: whether the output matrix is the token embedding (1.0).
        scaled_output: whether states are multiplied by hidden_dim ** -0.5 before the output matrix (1.0).
        initializer_factor: scales all initial weights.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = AttentionConfig.choices
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"initializer_factor": (0, 1000)}
    spare_rows: ClassVar[bool] = True
    max_sequence_length: int = 1024
    num_decoder_layers: int | None = None
    head_dim: int = 64
    num_buckets: int = 32
    max_distance: int = 128
    gated: bool = False
    tied_output: bool = True
    scaled_output: bool = True
    activation: str = "relu"
    layer_norm_epsilon: float = 1e-6
    initializer_factor: float = 1.0

    def __post_init__(self):
        if (
            self.num_decoder_layers == self.num_layers
        ):  # both say the same, so that equal networks are equal configurations
            object.__setattr__(self, "num_decoder_layers", None)


@keras.saving.register_keras_serializable("xmodels")
class T5(Transformer):
    """Encoder and decoder of pre-norm blocks with RMS norms and without biases. Only attention depends on positions.

    Call arguments and results as in `Transformer`; `position_ids` and `target_position_ids` are ignored.
    """

    config_class = T5Config
    any_length = True
    may_read: ClassVar[dict] = {}

    def __init__(self, config: T5Config, **kwargs):
        super().__init__(config, **kwargs)
        self.encoder_norm, self.decoder_norm = (_norm(config, f"{stack}_norm") for stack in ("encoder", "decoder"))
        self.dropout = Dropout(config.dropout)

    def make_embedding(self, config: T5Config) -> keras.layers.Layer:
        return T5Embedding(config, name="embedding")

    def make_encoder_block(self, config: T5Config, index: int) -> keras.layers.Layer:
        if not index:  # all blocks of a stack share its buckets
            self.encoder_buckets = _buckets(config, True)
        parts = _mixer(config, self.encoder_buckets), _feedforward(config)
        norm = keras.layers.RMSNormalization
        return PreNormBlock(*parts, config.dropout, config.layer_norm_epsilon, norm, name=f"encoder_{index}")

    def make_decoder_block(self, config: T5Config, index: int) -> keras.layers.Layer:
        if not index:
            self.decoder_buckets = _buckets(config, False)
        parts = _mixer(config, self.decoder_buckets), _mixer(config), _feedforward(config)
        norm = keras.layers.RMSNormalization
        return PreNormDecoderBlock(*parts, config.dropout, config.layer_norm_epsilon, norm, name=f"decoder_{index}")

    def finish(self, x, stack: str, training=None):
        x = self.encoder_norm(x) if stack == "encoder" else self.decoder_norm(x)
        return self.dropout(x, training=training)

    def logits(self, states):
        if self.config.scaled_output:
            states = states * self.config.hidden_dim**-0.5
        return tied_logits(states, self.embedding.token if self.config.tied_output else self.embedding.output_matrix)


class T5Embedding(Layer):
    """Token embedding, then dropout; shared by encoder and decoder. `output_matrix` is the output matrix of version 1.1."""

    def __init__(self, config: T5Config, **kwargs):
        super().__init__(**kwargs)
        self.token = _table(config, "token")
        self.output_matrix = None if config.tied_output else _table(config, "output_matrix")
        self.dropout = Dropout(config.dropout)

    def build(self, token_ids_shape, padding_mask_shape=None, position_ids_shape=None):
        for table in (self.token, self.output_matrix):  # `call` does not use the second one
            if table is not None and not table.built:
                table.build(token_ids_shape)

    def call(self, token_ids, padding_mask, position_ids=None, training=None):
        return self.dropout(self.token(token_ids), training=training)

    def target(self, target_ids, position_ids=None, training=None):
        """Returns the inputs of the decoder: (B, T) -> (B, T, D)."""
        return self.dropout(self.token(target_ids), training=training)


def _table(config: T5Config, name: str) -> keras.layers.Embedding:
    initializer = keras.initializers.RandomNormal(stddev=config.initializer_factor)
    return keras.layers.Embedding(
        config.vocabulary_size, config.hidden_dim, embeddings_initializer=initializer, name=name
    )


def _norm(config: T5Config, name: str) -> keras.layers.Layer:
    return keras.layers.RMSNormalization(epsilon=config.layer_norm_epsilon, name=name)


def _buckets(config: T5Config, bidirectional: bool) -> RelativeBuckets:
    initializer = keras.initializers.RandomNormal(stddev=config.initializer_factor * config.hidden_dim**-0.5)
    return RelativeBuckets(config.num_heads, config.num_buckets, config.max_distance, bidirectional, initializer)


def _mixer(config: T5Config, buckets: RelativeBuckets | None = None) -> BucketAttention:
    """Returns attention whose initial kernels have the standard deviation inputs ** -0.5; for queries it is divided by sqrt(K),
    since the attention is not scaled."""
    factor, outer, inner = config.initializer_factor, config.hidden_dim, config.head_dim
    initialization = _initialization(factor * outer**-0.5, factor * (config.num_heads * inner) ** -0.5)
    return BucketAttention(
        config.num_heads,
        outer,
        inner,
        config.dropout,
        initialization,
        normal(factor * (outer * inner) ** -0.5),
        buckets,
    )


def _feedforward(config: T5Config) -> FeedForward:
    kind = GatedFeedForward if config.gated else FeedForward
    factor, outer, inner = config.initializer_factor, config.hidden_dim, config.intermediate_dim
    initialization = _initialization(factor * outer**-0.5, factor * inner**-0.5)
    return kind(outer, inner, config.activation, initialization, config.dropout, use_bias=False)


def _initialization(inner: float, output: float):
    return dataclasses.replace(normal(inner), output=normal(output).inner)


def size(num_layers: int, hidden_dim: int, num_heads: int, intermediate_dim: int, head_dim: int = 64, **more) -> dict:
    return {
        "num_layers": num_layers, "hidden_dim": hidden_dim, "num_heads": num_heads, "head_dim": head_dim,
        "intermediate_dim": intermediate_dim, **more,
    }  # fmt: skip


def gated_size(*numbers, **more) -> dict:
    """Returns the fields of a size of version 1.1."""
    return size(*numbers, gated=True, tied_output=False, scaled_output=False, activation="gelu_tanh", **more)


# tiny and mini: for trials. The others: section 3.7 of the paper, and the released networks of version 1.1.
SIZES = {
    "tiny": size(2, 128, 2, 512),
    "mini": size(4, 256, 4, 1024),
    "small": size(6, 512, 8, 2048),
    "base": size(12, 768, 12, 3072),
    "large": size(24, 1024, 16, 4096),
    "3b": size(24, 1024, 32, 16384, 128),
    "11b": size(24, 1024, 128, 65536, 128),
    "v1_1_small": gated_size(8, 512, 6, 1024),
    "v1_1_base": gated_size(12, 768, 12, 2048),
    "v1_1_large": gated_size(24, 1024, 16, 2816),
    "v1_1_xl": gated_size(24, 2048, 32, 5120),
    "v1_1_xxl": gated_size(24, 4096, 64, 10240),
}
