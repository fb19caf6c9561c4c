"""The Evolved Transformer (So, Liang and Le, 2019, arXiv 1901.11117): an encoder-decoder of cells that a search has found."""

import dataclasses

import keras

from data_pipelines.errors import CheckpointError
from xmodels.layers.evolved_blocks import EvolvedDecoderBlock, EvolvedEncoderBlock
from xmodels.layers.norms import LayerNorm
from xmodels.models.config import NOTHING
from xmodels.models.transformer import Transformer, TransformerConfig, size

MOST_HEADS = 16  # of the first attention of a decoder layer, unless all have more


@dataclasses.dataclass(frozen=True)
class EvolvedTransformerConfig(TransformerConfig):
    """As of the Transformer; `activation` is that of the encoder's feed-forward layers."""

    @property
    def first_heads(self) -> int:
        """The heads of the first attention of a decoder layer: twice the others, at most 16."""
        return max(self.num_heads, min(2 * self.num_heads, MOST_HEADS))

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `AttentionConfig`, with the convolutions: 28 numbers for each of `hidden_dim`."""
        layer = 4 * 28 * self.hidden_dim
        return super().kept_bytes(length, rematerialize) + (layer if rematerialize else self.num_layers * layer)

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        if self.hidden_dim % 2 or self.hidden_dim % self.first_heads:
            raise CheckpointError(
                f"{source}: `hidden_dim` must be even and a multiple of {self.first_heads}, the heads of the first attention of the "
                f"decoder. Found: {self.hidden_dim}."
            )


@keras.saving.register_keras_serializable("xmodels")
class EvolvedTransformer(Transformer):
    """A Transformer whose layers are those of the Evolved Transformer, with a final norm after each stack.

    Call arguments and results as in `Transformer`. Padding of a target stands on its right.
    """

    config_class = EvolvedTransformerConfig

    def __init__(self, config: EvolvedTransformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.encoder_norm, self.decoder_norm = (
            LayerNorm(epsilon=config.layer_norm_epsilon, name=f"{stack}_norm") for stack in ("encoder", "decoder")
        )

    def make_encoder_block(self, config, index: int) -> keras.layers.Layer:
        return EvolvedEncoderBlock(config, name=f"encoder_{index}")

    def make_decoder_block(self, config, index: int) -> keras.layers.Layer:
        return EvolvedDecoderBlock(config, config.first_heads, name=f"decoder_{index}")

    def finish(self, x, stack: str, training=None):
        return self.encoder_norm(x) if stack == "encoder" else self.decoder_norm(x)


# base, big and deep: tensor2tensor's, of 64 to 222 million weights; a layer is about as deep as two of the Transformer. tiny and
# mini are ours.
SIZES = {
    "tiny": size(1, 128, 4, 512, num_decoder_layers=1),
    "mini": size(2, 256, 4, 1024, num_decoder_layers=2),
    "base": size(3, 512, 8, 2048, num_decoder_layers=4),
    "big": size(3, 1024, 16, 4096, 0.3, num_decoder_layers=4),
    "deep": size(9, 640, 16, 2560, 0.3, num_decoder_layers=10),
}
