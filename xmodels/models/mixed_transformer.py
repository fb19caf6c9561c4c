"""A Transformer, encoder and decoder, whose texts are mixed by a layer of choice, such as TensorCoder's dimension-wise attention."""

import dataclasses
from typing import ClassVar

import keras

from xmodels.layers import initialization as initializations
from xmodels.layers.blocks import PostNormBlock
from xmodels.layers.context_matrix import ContextMatrix
from xmodels.layers.decoder_blocks import PostNormDecoderBlock
from xmodels.layers.mixers import mixer_for
from xmodels.models.mixing import MixerConfig
from xmodels.models.transformer import SIZES, Transformer, TransformerConfig, feedforward_of, mixer_of

__all__ = ["SIZES", "MixedTransformer", "MixedTransformerConfig"]
ATTENTION, CONTEXT = "attention", "context"


@dataclasses.dataclass(frozen=True)
class MixedTransformerConfig(TransformerConfig, MixerConfig):
    """As `TransformerConfig` and `MixerConfig`: the mixer stands in the place of the self-attention of every block.

    Attributes:
        cross: how the decoder reads the source: "attention", softmax attention over its tokens, or "context", by one matrix of the
            source for each head, as `ContextMatrix` does.
        attention_bias: whether the projections of what reads the source have biases. Those of mixers have them.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {**TransformerConfig.choices, "cross": (ATTENTION, CONTEXT)}
    cross: str = ATTENTION
    attention_bias: bool = True


@keras.saving.register_keras_serializable("xmodels")
class MixedTransformer(Transformer):
    """The `Transformer` with another mixer in the place of self-attention, in the encoder and, causally, in the decoder.

    With the mixer `multi_head` and the cross "attention", it is a `Transformer` whose attention has biases. Call arguments and
    results as there.

    Raises:
        ValueError: the mixer does not support padding or causal texts, or `cross` is unknown.
    """

    config_class = MixedTransformerConfig
    mixer_uses = (frozenset({"padding"}), frozenset({"causal"}))  # in the encoder, and in the decoder

    def __init__(self, config: MixedTransformerConfig, **kwargs):
        if config.cross not in (ATTENTION, CONTEXT):
            raise ValueError(f"`cross` must be {ATTENTION!r} or {CONTEXT!r}. Received: {config.cross!r}.")
        self._shared: list[dict] = [{}, {}]  # layers that the mixers of several blocks use
        super().__init__(config, **kwargs)

    def _mixer(self, config, index: int, use: int):
        return mixer_for(config, initializations.glorot(), self.mixer_uses[use], index, self._shared[use])

    def make_encoder_block(self, config, index: int) -> keras.layers.Layer:
        parts = self._mixer(config, index, 0), feedforward_of(config)
        return PostNormBlock(*parts, config.dropout, config.layer_norm_epsilon, name=f"encoder_{index}")

    def make_decoder_block(self, config, index: int) -> keras.layers.Layer:
        sizes = config.num_heads, config.hidden_dim
        cross = (
            mixer_of(config) if config.cross == ATTENTION
            else ContextMatrix(*sizes, initialization=initializations.glorot(), use_bias=config.attention_bias)
        )  # fmt: skip
        parts = self._mixer(config, index, 1), cross, feedforward_of(config)
        return PostNormDecoderBlock(*parts, config.dropout, config.layer_norm_epsilon, name=f"decoder_{index}")

    def keep(self, block, source, features):
        if self.config.cross == CONTEXT:
            return block.cross.keep(source, self.source_visible(features))
        return super().keep(block, source, features)

    @property
    def rewinds(self):
        return all(block.mixer.rewinds for block in self.decoder_blocks)
