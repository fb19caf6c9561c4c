"""Universal Transformer: one encoder block and one decoder block, applied repeatedly (Dehghani et al., 2018, arXiv 1807.03819),
as in tensor2tensor."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.layers import initialization as initializations
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import PostNormBlock, PreNormBlock
from xmodels.layers.decoder_blocks import PostNormDecoderBlock, PreNormDecoderBlock
from xmodels.layers.heads import tied_logits
from xmodels.layers.norms import LayerNorm
from xmodels.layers.positions import SINUSOIDS
from xmodels.layers.separable_convolution import (
    ConvolutionTransition,
    PreNormConvolutionBlock,
    PreNormConvolutionDecoderBlock,
)
from xmodels.layers.steps import Steps
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING
from xmodels.models.transformer import Embedding, Transformer, TransformerConfig, feedforward_of, mixer_of, size

# (norm, transition) -> the classes of the encoder block and of the decoder block.
BLOCKS = {
    ("pre", "feedforward"): (PreNormBlock, PreNormDecoderBlock),
    ("post", "feedforward"): (PostNormBlock, PostNormDecoderBlock),
    ("pre", "convolution"): (PreNormConvolutionBlock, PreNormConvolutionDecoderBlock),
}


@dataclasses.dataclass(frozen=True)
class UniversalTransformerConfig(TransformerConfig):
    """`num_layers` counts the steps of the encoder, and those of the decoder unless there is a `num_decoder_layers`.

    Attributes:
        step_signal: the encoding of the step, `kind` of `layers.steps.Steps`. If it and `position` are "interleaved", the
            encodings are equations 4 and 5 of the paper, except that positions count from 0. If both are "half", positions have
            one half of the channels and steps the other (tensor2tensor's signals of two dimensions).
        transition: "feedforward" or "convolution".
        norm: "pre" (tensor2tensor, with a final norm after each stack) or "post" (the paper).
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **TransformerConfig.choices,
        "step_signal": (*SINUSOIDS, "learned"),
        "transition": ("feedforward", "convolution"),
        "norm": ("pre", "post"),
    }
    step_signal: str = "learned"
    transition: str = "feedforward"
    norm: str = "pre"

    @classmethod
    def from_json(cls, values, source="config.json", spelled=NOTHING):
        """Works as in `AttentionConfig`; also raises a CheckpointError if there is no block with this norm and transition."""
        config = super().from_json(values, source, spelled)
        try:
            check_block(config)
        except ValueError as error:
            raise CheckpointError(f"{source}: {error}") from None
        return config


def check_block(config: UniversalTransformerConfig) -> None:
    """Raises a ValueError unless there is a block with this norm and transition."""
    if (config.norm, config.transition) not in BLOCKS:
        raise ValueError(
            f"`norm` and `transition` must be one of {', '.join(map('-'.join, BLOCKS))}. "
            f"Received: {config.norm!r}, {config.transition!r}."
        )


@keras.saving.register_keras_serializable("xmodels")
class UniversalTransformer(Backbone):
    """Encoder and decoder of one block each. In every step the decoder attends to the last state of the encoder.

    Call arguments and results as in `Transformer`.

    Raises:
        ValueError: there is no block with this norm and transition.
    """

    config_class = UniversalTransformerConfig
    encodes = True
    reads, may_read = Transformer.reads, Transformer.may_read

    def __init__(self, config: UniversalTransformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        check_block(config)
        self.embedding = Tokens(config, name="embedding")
        encoder_block, decoder_block = BLOCKS[config.norm, config.transition]
        numbers = config.dropout, config.layer_norm_epsilon
        parts = mixer_of(config), transition_of(config, is_causal=False)
        self.encoder_block = encoder_block(*parts, *numbers, name="encoder_block")
        parts = mixer_of(config), mixer_of(config), transition_of(config, is_causal=True)
        self.decoder_block = decoder_block(*parts, *numbers, name="decoder_block")
        self.encoder_steps = self.make_steps(config, config.num_layers, "encoder_steps")
        self.decoder_steps = self.make_steps(config, config.num_decoder_layers or config.num_layers, "decoder_steps")
        self.encoder_norm, self.decoder_norm = (norm_of(config, f"{stack}_norm") for stack in ("encoder", "decoder"))

    def make_steps(self, config, num_layers: int, name: str) -> Steps:
        return Steps(config.step_signal, config.hidden_dim, num_layers, name=name)

    def call(self, features, visible=None, training=None):
        source, of_encoder = self._encode(features, visible, training)
        target = features["target_ids"]
        before, real = Visible(causal=True), Visible(features["padding_mask"])

        def advance(x, step):
            return self.decoder_block(x, source=source, visible=before, source_visible=real, training=training)

        position_ids = features.get("target_position_ids")
        x = self.embedding.target(target, position_ids, training=training)  # (B, T, D)
        x, of_decoder = self.decoder_steps.run(x, self._places(x, position_ids), advance)
        others = {f"encoder_{name}": value for name, value in of_encoder.items()}
        others |= {f"decoder_{name}": value for name, value in of_decoder.items()}
        return {"sequence_output": self.decoder_norm(x), "encoder_output": source, **others}

    def encode(self, features, visible=None, training=None):
        """Returns the states of the source, (B, S, D)."""
        return self._encode(features, visible, training)[0]

    def _encode(self, features, visible=None, training=None):
        real, position_ids = features["padding_mask"], features.get("position_ids")
        visible = visible or Visible(real)

        def advance(x, step):
            return self.encoder_block(x, visible=visible, training=training)

        x = self.embedding(features["token_ids"], real, position_ids, training=training)  # (B, S, D)
        x, others = self.encoder_steps.run(x, self._places(x, position_ids), advance, real)
        return self.encoder_norm(x), others

    def hidden_states(self, features, training=None):
        """Returns the outputs of the embedding and of the encoder, (B, S, D) each; those of its steps are not included."""
        read = features["token_ids"], features["padding_mask"], features.get("position_ids")
        return [self.embedding(*read, training=training), self.encode(features, training=training)]

    def logits(self, states):
        """Returns the logits of target tokens from states of the decoder: (..., D) -> float32 (..., V)."""
        return tied_logits(states, self.embedding.output_matrix)

    def _places(self, x, position_ids):
        """Returns the position encodings that every step adds to x, (L, D) or (B, L, D)."""
        positions = ops.arange(ops.shape(x)[1], dtype="int32") if position_ids is None else position_ids
        return self.embedding.position(positions)

    def start(self, features, length: int):
        """Encodes the source and returns the initial `past` of `decode`, for targets of at most `length` tokens.

        Each step has a cache of its own, since the states differ; the keys and values of the source are the same in all.
        """
        source = self.encode(features)
        past = self.decoder_block.start(ops.shape(source)[0], length)
        return {
            "past": (past,) * self.decoder_steps.num_steps,
            "source": self.decoder_block.cross.keep(source),
            "source_padding": ops.cast(features["padding_mask"], "bool"),
        }

    def decode(self, target_ids, past, position):
        """Decodes the next T tokens of targets. Arguments and results as in `Transformer.decode`, but `position` is an int."""
        positions = position + ops.arange(target_ids.shape[1], dtype="int32")  # (T,)
        present, real = [], Visible(past["source_padding"])

        def advance(x, step):
            of_step = past["past"][step]
            x, of_step = self.decoder_block.step(x, of_step, position, past["source"], real)
            present.append(of_step)
            return x

        x = self.embedding.target(target_ids, positions)
        x, _ = self.decoder_steps.run(x, self._places(x, positions), advance)
        return self.decoder_norm(x), {**past, "past": tuple(present)}


class Tokens(Embedding):
    """An `Embedding` without position encodings, which are added in each step."""

    def _add_positions(self, x, position_ids, training):
        return self.dropout(x, training=training)


def transition_of(config: UniversalTransformerConfig, is_causal: bool) -> keras.layers.Layer:
    if config.transition == "feedforward":
        return feedforward_of(config)
    numbers = config.hidden_dim, config.intermediate_dim, config.activation
    return ConvolutionTransition(*numbers, initializations.glorot(), config.intermediate_dropout, is_causal)


def norm_of(config: UniversalTransformerConfig, name: str) -> keras.layers.Layer:
    """Returns the layer after the last step."""
    if config.norm == "post":
        return keras.layers.Identity(name=name)
    return LayerNorm(epsilon=config.layer_norm_epsilon, name=name)


# tensor2tensor's `universal_transformer_*`.
SIZES = {
    "tiny": size(8, 128, 4, 512),
    "small": size(6, 512, 8, 2048),
    "base": size(6, 1024, 16, 4096, 0.3),
    "tall": size(16, 512, 8, 2048),
}
