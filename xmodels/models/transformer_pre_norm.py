"""Pre-norm Transformer: On Layer Normalization in the Transformer Architecture (Xiong et al., 2020, arXiv 2002.04745)."""

import keras

from xmodels.layers.blocks import PreNormBlock
from xmodels.layers.decoder_blocks import PreNormDecoderBlock
from xmodels.layers.norms import LayerNorm
from xmodels.models.transformer import SIZES, Transformer, TransformerConfig, feedforward_of, mixer_of

__all__ = ["SIZES", "PreNormTransformer", "TransformerConfig"]


@keras.saving.register_keras_serializable("xmodels")
class PreNormTransformer(Transformer):
    """A Transformer with norms inside the residual branches and a final norm after each stack.

    Call arguments and results as in `Transformer`.
    """

    begins_as = ("gpt2",)

    def __init__(self, config: TransformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.encoder_norm, self.decoder_norm = (
            LayerNorm(epsilon=config.layer_norm_epsilon, name=f"{stack}_norm") for stack in ("encoder", "decoder")
        )

    def make_encoder_block(self, config, index: int) -> keras.layers.Layer:
        parts = mixer_of(config), feedforward_of(config)
        return PreNormBlock(*parts, config.dropout, config.layer_norm_epsilon, name=f"encoder_{index}")

    def make_decoder_block(self, config, index: int) -> keras.layers.Layer:
        parts = mixer_of(config), mixer_of(config), feedforward_of(config)
        return PreNormDecoderBlock(*parts, config.dropout, config.layer_norm_epsilon, name=f"decoder_{index}")

    def finish(self, x, stack: str, training=None):
        return self.encoder_norm(x) if stack == "encoder" else self.decoder_norm(x)
