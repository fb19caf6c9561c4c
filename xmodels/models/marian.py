"""The Transformer of Marian (Junczys-Dowmunt et al., 2018, arXiv 1804.00344), as Hugging Face publishes the networks of OPUS-MT
(Tiedemann and Thottingal, 2020)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.positions import PositionSignal
from xmodels.models.bart import Bart, BartConfig, token_table
from xmodels.models.transformer import size


@dataclasses.dataclass(frozen=True)
class MarianConfig(BartConfig):
    """Fields as in `BartConfig`. Positions are sinusoids, counted from 0; `max_sequence_length` only limits texts."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"first_position": (0, 0)}
    max_sequence_length: int = 512
    first_position: int = 0
    scale_embedding: bool = True
    activation: str = "swish"


@keras.saving.register_keras_serializable("xmodels")
class Marian(Bart):
    """A post-norm Transformer with biases in attention, concatenated sinusoids as positions, and a non-trainable bias of the
    logits.

    Call arguments and results as in `Bart`.
    """

    config_class = MarianConfig

    def make_embedding(self, config: MarianConfig) -> keras.layers.Layer:
        return MarianEmbedding(config, name="embedding")


class MarianEmbedding(Layer):
    """Token embedding, by default times sqrt(D), plus position encoding, then dropout; shared by source and target."""

    def __init__(self, config: MarianConfig, **kwargs):
        super().__init__(**kwargs)
        self.scale = config.hidden_dim**0.5 if config.scale_embedding else 1.0
        self.token = self.output_token = self.output_matrix = token_table(config, config.vocabulary_size, "token")
        self.position = PositionSignal("concatenated", config.hidden_dim, config.max_sequence_length, name="position")
        self.dropout = Dropout(config.dropout)

    def call(self, token_ids, padding_mask, position_ids=None, training=None):
        """Returns the inputs of the encoder: (B, S) -> (B, S, D)."""
        return self.target(token_ids, position_ids, training=training)

    def target(self, target_ids, position_ids=None, training=None):
        """Returns the inputs of the decoder, at positions (T,) or (B, T): (B, T) -> (B, T, D)."""
        positions = ops.arange(ops.shape(target_ids)[1], dtype="int32") if position_ids is None else position_ids
        return self.dropout(self.token(target_ids) * self.scale + self.position(positions), training=training)


# tiny and mini: for trials. base: most networks of OPUS-MT. big: those called "tc-big".
SIZES = {
    "tiny": size(2, 128, 4, 512),
    "mini": size(4, 256, 4, 1024),
    "base": size(6, 512, 8, 2048),
    "big": size(6, 1024, 16, 4096, activation="relu"),
}
