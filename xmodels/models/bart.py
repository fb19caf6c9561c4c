"""BART: Denoising Sequence-to-Sequence Pre-training (Lewis et al., 2019, arXiv 1910.13461), as in fairseq and Hugging Face."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers import initialization as initializations
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.blocks import PostNormBlock
from xmodels.layers.decoder_blocks import PostNormDecoderBlock
from xmodels.layers.dropout import Dropout
from xmodels.layers.embeddings import positions_of
from xmodels.layers.feedforward import FeedForward
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.models.config import AttentionConfig
from xmodels.models.transformer import Transformer, size
from xmodels.models.transformer_parts import BERT_LIKE, from_bert


@dataclasses.dataclass(frozen=True)
class BartConfig(AttentionConfig):
    """`num_layers`, `num_heads` and `intermediate_dim` are those of the encoder, and of the decoder unless it has fields of its own.

    Attributes:
        num_decoder_layers, decoder_num_heads, decoder_intermediate_dim: of the decoder; None for those of the encoder.
        first_position: the row of the first token in the position tables, 2 in fairseq; the tables have so many rows more than
            `max_sequence_length`.
        scale_embedding: whether token embeddings are multiplied by sqrt(D); those of the published networks are not.
        intermediate_dropout: inside the feed-forward layers.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = AttentionConfig.choices
    max_sequence_length: int = 1024
    num_decoder_layers: int | None = None
    decoder_num_heads: int | None = None
    decoder_intermediate_dim: int | None = None
    first_position: int = 2
    scale_embedding: bool = False
    attention_dropout: float = 0.0
    intermediate_dropout: float = 0.0
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-5
    initializer_stddev: float = 0.02

    def __post_init__(self):
        for name, own in (("num_layers", "num_decoder_layers"), ("num_heads", "decoder_num_heads"),
                          ("intermediate_dim", "decoder_intermediate_dim")):  # fmt: skip
            if getattr(self, name) == getattr(self, own):  # so that equal networks are equal configurations
                object.__setattr__(self, own, None)

    def suits(self, num_tokens: int) -> bool:
        """Works as in `AttentionConfig`, but one row may be missing: that of `<mask>`, the last token, in some published large
        networks."""
        return super().suits(num_tokens) or num_tokens == self.vocabulary_size + 1

    @property
    def num_positions(self) -> int:
        return self.max_sequence_length + self.first_position


class LearnedPositionTransformer(Transformer):
    """Encoder and decoder of post-norm blocks over normalised sums of token and learned position embeddings.

    Call arguments and results as in `Transformer`. Positions count all tokens from 0, including padding.
    """

    config_class = BartConfig

    @classmethod
    def adopt_part(cls, part, config, model, loaded, values, source):
        """Works as in `Backbone`."""
        return from_bert(part, config, loaded, values)

    def make_embedding(self, config: BartConfig) -> keras.layers.Layer:
        return BartEmbedding(config, name="embedding")

    def make_encoder_block(self, config: BartConfig, index: int) -> keras.layers.Layer:
        parts = _mixer(config, config.num_heads), _feedforward(config, config.intermediate_dim)
        return PostNormBlock(*parts, config.dropout, config.layer_norm_epsilon, name=f"encoder_{index}")

    def make_decoder_block(self, config: BartConfig, index: int) -> keras.layers.Layer:
        heads = config.decoder_num_heads or config.num_heads
        feedforward = _feedforward(config, config.decoder_intermediate_dim or config.intermediate_dim)
        parts = _mixer(config, heads), _mixer(config, heads), feedforward
        return PostNormDecoderBlock(*parts, config.dropout, config.layer_norm_epsilon, name=f"decoder_{index}")


@keras.saving.register_keras_serializable("xmodels")
class Bart(LearnedPositionTransformer):
    """A `LearnedPositionTransformer` with a bias (V,) that is added to the logits. It is not trained, and zero except in some
    checkpoints of Hugging Face.

    Without `target_ids` the decoder reads the source shifted right by one position (section 3.1), as for classification.
    """

    begins_as = BERT_LIKE

    def __init__(self, config: BartConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.output_bias = OutputBias(config.vocabulary_size, name="output_bias")

    def call(self, features, visible=None, training=None):
        if "target_ids" not in features:
            features = {**features, "target_ids": shift_tokens_right(features)}
        return super().call(features, visible, training)

    def logits(self, states):
        return self.output_bias(super().logits(states))


def shift_tokens_right(features):
    """Shifts the source right by one, with its last real token (the end token) in front: int (B, S). Padding may stand on either
    side."""
    token_ids = features["token_ids"]
    places = ops.arange(ops.shape(token_ids)[1], dtype="int32")  # (S,)
    real = ops.where(ops.cast(features["padding_mask"], "bool"), places, 0)  # (B, S)
    last = ops.take_along_axis(token_ids, ops.max(real, axis=1, keepdims=True), axis=1)  # (B, 1)
    return ops.concatenate([last, token_ids[:, :-1]], axis=1)


class OutputBias(keras.layers.Layer):
    """Adds a non-trainable float32 bias to logits: (..., V) -> (..., V)."""

    def __init__(self, vocabulary_size: int, **kwargs):
        super().__init__(dtype="float32", **kwargs)
        self.bias = self.add_weight(shape=(vocabulary_size,), initializer="zeros", trainable=False, name="bias")
        self.built = True

    def call(self, logits):
        return ops.add(logits, self.bias)


class BartEmbedding(Layer):
    """LayerNorm(token + position), then dropout. Encoder and decoder share only the token embedding."""

    def __init__(self, config: BartConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.scale = config.hidden_dim**0.5 if config.scale_embedding else 1.0
        self.token = self.output_token = self.output_matrix = token_table(config, config.vocabulary_size, "token")
        self.source_position = token_table(config, config.num_positions, "source_position")
        self.target_position = token_table(config, config.num_positions, "target_position")
        self.source_norm, self.target_norm = (
            LayerNorm(epsilon=config.layer_norm_epsilon, name=f"{side}_norm") for side in ("source", "target")
        )
        self.dropout = Dropout(config.dropout)

    def call(self, token_ids, padding_mask, position_ids=None, training=None):
        """Returns the inputs of the encoder: (B, S) -> (B, S, D)."""
        x = self._sum(token_ids, position_ids, self.source_position)
        return self.dropout(self.source_norm(x), training=training)

    def target(self, target_ids, position_ids=None, training=None):
        """Returns the inputs of the decoder, at positions (T,) or (B, T): (B, T) -> (B, T, D)."""
        x = self._sum(target_ids, position_ids, self.target_position)
        return self.dropout(self.target_norm(x), training=training)

    def _sum(self, token_ids, position_ids, table):
        if position_ids is None:
            position_ids = positions_of(token_ids, self.config.max_sequence_length)[0]
        return self.token(token_ids) * self.scale + table(position_ids + self.config.first_position)


def token_table(config: BartConfig, rows: int, name: str) -> keras.layers.Embedding:
    initializer = keras.initializers.RandomNormal(stddev=config.initializer_stddev)
    return keras.layers.Embedding(rows, config.hidden_dim, embeddings_initializer=initializer, name=name)


def _mixer(config: BartConfig, num_heads: int) -> MultiHeadAttention:
    return MultiHeadAttention(
        num_heads, config.hidden_dim, config.attention_dropout, initializations.gpt(config.initializer_stddev)
    )


def _feedforward(config: BartConfig, intermediate_dim: int) -> FeedForward:
    return FeedForward(
        config.hidden_dim, intermediate_dim, config.activation, initializations.gpt(config.initializer_stddev),
        config.intermediate_dropout,
    )  # fmt: skip


# tiny and mini: for trials. base and large: section 2.1, with dropout as in fairseq's `bart_large`.
SIZES = {
    "tiny": size(2, 128, 4, 512),
    "mini": size(4, 256, 4, 1024),
    "base": size(6, 768, 12, 3072),
    "large": size(12, 1024, 16, 4096),
}
