"""Transformer: Attention Is All You Need (Vaswani et al., 2017, arXiv 1706.03762)."""

import dataclasses
from typing import Any, ClassVar

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers import initialization as initializations
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.attention.places import positions_of
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import PostNormBlock, attention_maps, attention_scores
from xmodels.layers.decoder_blocks import PostNormDecoderBlock
from xmodels.layers.dropout import Dropout
from xmodels.layers.feedforward import FeedForward
from xmodels.layers.heads import tied_logits
from xmodels.layers.positions import SINUSOIDS, PositionSignal
from xmodels.models.backbone import Backbone
from xmodels.models.config import AttentionConfig
from xmodels.models.transformer_parts import from_gpt


@dataclasses.dataclass(frozen=True)
class TransformerConfig(AttentionConfig):
    """`num_layers` counts the layers of the encoder, and those of the decoder unless there is a `num_decoder_layers`.

    Attributes:
        target_vocabulary_size: None for one vocabulary of source and target. Otherwise they have tables of their own.
        share_embeddings: which tables are one: "all", those of source, target and output (section 3.4), or without that of the
            source if the target has a vocabulary of its own; "target_softmax", those of target and output; "none".
        intermediate_dropout: inside the feed-forward layers.
        position: one of `SINUSOIDS`, or "learned".
        start: the first input of the decoder: "zero", a vector of zeros, or "token", the first token of `target_ids`.
        attention_bias: whether the projections of attention have biases; those of tensor2tensor do not.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **AttentionConfig.choices,
        "position": (*SINUSOIDS, "learned"),
        "start": ("zero", "token"),
        "share_embeddings": ("all", "target_softmax", "none"),
    }
    num_decoder_layers: int | None = None
    target_vocabulary_size: int | None = None
    attention_dropout: float = 0.1
    intermediate_dropout: float = 0.1
    activation: str = "relu"
    position: str = "sinusoid"
    start: str = "zero"
    attention_bias: bool = False
    layer_norm_epsilon: float = 1e-6
    share_embeddings: str = "all"

    def to_json(self) -> dict[str, Any]:
        """Works as in `AttentionConfig`. `share_embeddings` is left out if it is "all", for folders from before the field."""
        values = super().to_json()
        if self.share_embeddings == "all":
            del values["share_embeddings"]
        return values


@keras.saving.register_keras_serializable("xmodels")
class Transformer(Backbone):
    """Encoder and decoder of post-norm blocks.

    Call arguments:
        features: `token_ids` int (B, S) and `padding_mask` bool (B, S), the source; `target_ids` int (B, T), the inputs of the
            decoder: the target shifted right by one. `position_ids` and `target_position_ids`, int (B, S) and (B, T), if
            positions do not count from 0. Targets are padded on the right, where causal attention does not reach.
        visible: a `Visible`, which tokens a token of the source attends to; by default all real ones.

    Returns:
        A dictionary of `sequence_output` (B, T, D), the states of the decoder, and `encoder_output` (B, S, D).
    """

    config_class = TransformerConfig
    encodes = True
    reads = {**Backbone.reads, "target_ids": Feature((None,))}
    may_read = {"position_ids": Feature((None,)), "target_position_ids": Feature((None,))}
    begins_as = ("gpt",)

    def __init__(self, config: TransformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = self.make_embedding(config)
        self.encoder_blocks = [self.make_encoder_block(config, i) for i in range(config.num_layers)]
        count = config.num_decoder_layers or config.num_layers
        self.decoder_blocks = [self.make_decoder_block(config, i) for i in range(count)]

    def make_embedding(self, config) -> keras.layers.Layer:
        return Embedding(config, name="embedding")

    def make_encoder_block(self, config, index: int) -> keras.layers.Layer:
        parts = mixer_of(config), feedforward_of(config)
        return PostNormBlock(*parts, config.dropout, config.layer_norm_epsilon, name=f"encoder_{index}")

    def make_decoder_block(self, config, index: int) -> keras.layers.Layer:
        parts = mixer_of(config), mixer_of(config), feedforward_of(config)
        return PostNormDecoderBlock(*parts, config.dropout, config.layer_norm_epsilon, name=f"decoder_{index}")

    def finish(self, x, stack: str, training=None):
        """Returns what follows the last block of `stack`, "encoder" or "decoder"; here the states as they are."""
        return x

    def logits(self, states):
        """Returns the logits of target tokens from states of the decoder: (..., D) -> float32 (..., V)."""
        return tied_logits(states, self.embedding.output_matrix)

    def call(self, features, visible=None, training=None):
        source = self.encode(features, visible, training)
        target = features["target_ids"]
        x = self.embedding.target(target, features.get("target_position_ids"), training=training)  # (B, T, D)
        before, real = Visible(causal=True), self.source_visible(features)
        for block in self.decoder_blocks:
            x = block(x, source=source, visible=before, source_visible=real, training=training)
        return {"sequence_output": self.finish(x, "decoder", training), "encoder_output": source}

    def source_visible(self, features) -> Visible:
        """Returns which tokens of the source the decoder attends to: all real ones."""
        return Visible(features["padding_mask"])

    def encode(self, features, visible=None, training=None):
        """Returns the states of the source, (B, S, D)."""
        real = features["padding_mask"]
        x = self.embedding(features["token_ids"], real, features.get("position_ids"), training=training)
        visible = visible or Visible(real)
        for block in self.encoder_blocks:
            x = block(x, visible=visible, training=training)
        return self.finish(x, "encoder", training)

    def hidden_states(self, features, training=None):
        """Returns the outputs of the embedding and of every block of the encoder, (B, S, D) each; the last one is that of `encode`."""
        real = features["padding_mask"]
        states = [self.embedding(features["token_ids"], real, features.get("position_ids"), training=training)]
        for block in self.encoder_blocks:
            states.append(block(states[-1], visible=Visible(real), training=training))
        return [*states[:-1], self.finish(states[-1], "encoder", training)]

    def attention_maps(self, features):
        """Returns the attention probabilities of every block of the encoder, num_layers tensors float32 (B, H, S, S)."""
        return attention_maps(self.encoder_blocks, self.hidden_states(features), Visible(features["padding_mask"]))

    def attention_scores(self, features, states):
        return attention_scores(self.encoder_blocks, states, Visible(features["padding_mask"]))

    @classmethod
    def adopt_part(cls, part, config, model, loaded, values, source):
        """Works as in `Backbone`."""
        return from_gpt(part, config, loaded, values)

    def start(self, features, length: int):
        """Encodes the source and returns the initial `past` of `decode`, for targets of at most `length` tokens."""
        source = self.encode(features)
        batch = ops.shape(source)[0]
        return {
            "past": tuple(block.start(batch, length) for block in self.decoder_blocks),
            "source": tuple(self.keep(block, source, features) for block in self.decoder_blocks),
            "source_padding": ops.cast(features["padding_mask"], "bool"),
        }

    def keep(self, block, source, features):
        """Returns what a block of the decoder needs of the encoded source (B, S, D) in each step."""
        return block.keep(source)

    @property
    def shares_past(self) -> bool:
        return all(block.shares_past for block in self.decoder_blocks)

    def decode(self, target_ids, past, place):
        """Decodes the next T tokens of targets, without recomputing those before them.

        Args:
            target_ids: int (B, T), the tokens from position `place` on.
            past: the result of `start` or of the previous call.
            place: int, the position of the first token; or `attention.places.Beams`.

        Returns:
            Their states (B, T, D), and `past` updated with these tokens.
        """
        positions = positions_of(place, target_ids.shape[1])  # (T,)
        x, present, real = self.embedding.target(target_ids, positions), [], Visible(past["source_padding"])
        rows = zip(self.decoder_blocks, past["past"], past["source"], strict=True)
        for block, of_block, source in rows:
            x, of_block = block.step(x, of_block, place, source, real)
            present.append(of_block)
        return self.finish(x, "decoder"), {**past, "past": tuple(present)}


class Embedding(keras.layers.Layer):
    """Token embedding times sqrt(D), plus position encoding, then dropout (section 3.4).

    The token embedding of source padding is zero. `token` is the table of source tokens, `output_token` that of target tokens,
    and `output_matrix` that of the logits; by default they are one.

    Raises:
        ValueError: `start` or `share_embeddings` of the configuration is unknown.
    """

    def __init__(self, config: TransformerConfig, **kwargs):
        super().__init__(**kwargs)
        self.scale, self.start = config.hidden_dim**0.5, config.start
        if config.start not in ("zero", "token"):
            raise ValueError(f"`start` must be 'zero' or 'token'. Received: {config.start!r}.")
        shared = config.share_embeddings
        if shared not in config.choices["share_embeddings"]:
            raise ValueError(f"`share_embeddings` must be 'all', 'target_softmax' or 'none'. Received: {shared!r}.")

        def table(rows, name):
            initializer = keras.initializers.RandomNormal(stddev=config.hidden_dim**-0.5)
            return keras.layers.Embedding(rows, config.hidden_dim, embeddings_initializer=initializer, name=name)

        self.token = table(config.vocabulary_size, "token")
        other = config.target_vocabulary_size
        rows = other or config.vocabulary_size
        self.output_token = self.token if shared == "all" and not other else table(rows, "output_token")
        self.output_matrix = table(rows, "output_matrix") if shared == "none" else self.output_token
        self.position = PositionSignal(config.position, config.hidden_dim, config.max_sequence_length, name="position")
        self.dropout = Dropout(config.dropout)

    def build(self, token_ids_shape, padding_mask_shape=None, position_ids_shape=None):
        # `call` does not use all of them.
        for table in (self.token, self.output_token, self.output_matrix, self.position):
            if not table.built:
                table.build(token_ids_shape)
        self.built = True

    def call(self, token_ids, padding_mask, position_ids=None, training=None):
        real = ops.expand_dims(ops.cast(padding_mask, self.compute_dtype), -1)
        return self._add_positions(self.token(token_ids) * self.scale * real, position_ids, training)

    def target(self, target_ids, position_ids=None, training=None):
        """Returns the inputs of the decoder, at positions (T,) or (B, T): (B, T) -> (B, T, D)."""
        x = self.output_token(target_ids) * self.scale
        if self.start == "zero":
            positions = ops.arange(ops.shape(target_ids)[1]) if position_ids is None else position_ids
            x = x * ops.expand_dims(ops.cast(positions > 0, x.dtype), -1)
        return self._add_positions(x, position_ids, training)

    def _add_positions(self, x, position_ids, training):
        positions = ops.arange(ops.shape(x)[1], dtype="int32") if position_ids is None else position_ids
        return self.dropout(x + self.position(positions), training=training)


def mixer_of(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.num_heads, config.hidden_dim, config.attention_dropout, initializations.glorot(), config.attention_bias
    )  # fmt: skip


def feedforward_of(config: TransformerConfig) -> FeedForward:
    return FeedForward(
        config.hidden_dim, config.intermediate_dim, config.activation, initializations.glorot(),
        config.intermediate_dropout,
    )  # fmt: skip


def size(num_layers: int, hidden_dim: int, num_heads: int, intermediate_dim: int, dropout: float = 0.1, **more) -> dict:
    return {
        "num_layers": num_layers, "hidden_dim": hidden_dim, "num_heads": num_heads,
        "intermediate_dim": intermediate_dim, "dropout": dropout, **more,
    }  # fmt: skip


# base and big: table 3, without the dropout inside attention and feed-forward that tensor2tensor added later.
PAPER = {"attention_dropout": 0.0, "intermediate_dropout": 0.0}
SIZES = {
    "tiny": size(2, 128, 4, 512),
    "mini": size(4, 256, 4, 1024),
    "base": size(6, 512, 8, 2048, **PAPER),
    "big": size(6, 1024, 16, 4096, 0.3, **PAPER),
}
