"""The encoder of Convolutional Sequence to Sequence Learning (Gehring et al., 2017, arXiv 1705.03122, section 3)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.convolution import GatedConvolution
from xmodels.layers.embeddings import TokenPositionEmbedding
from xmodels.layers.pooling import mean_state
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING, LayersConfig


@dataclasses.dataclass(frozen=True)
class GatedConvolutionConfig(LayersConfig):
    """Layer i, from 0, has a dilation of `dilation_base` ** i; the paper's layers are not dilated."""

    retired: ClassVar[frozenset[str]] = frozenset({"num_heads", "intermediate_dim"})
    num_layers: int = 15
    max_sequence_length: int = 512
    kernel_size: int = 3
    dilation_base: int = 1
    initializer_stddev: float = 0.1  # of embeddings
    dropout: float = 0.2

    @property
    def longest(self):
        return self.max_sequence_length

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        self._check_table("max_sequence_length", "hidden_dim", source, spelled)


@keras.saving.register_keras_serializable("xmodels")
class GatedConvolutions(Backbone):
    """Stacked gated convolutions, centred on each token, over token and position embeddings.

    All layers have the width `hidden_dim`. Unlike in the paper, kernels have no weight normalisation (Salimans and Kingma, 2016).

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L).

    Returns:
        A dictionary of `sequence_output` (B, L, D), zeros at padding, and `pooled_output` (B, D), the mean of the real tokens.
    """

    config_class = GatedConvolutionConfig
    from_labels = True

    def __init__(self, config: GatedConvolutionConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = TokenPositionEmbedding(config, name="embedding")
        self.blocks = [self.make_block(config, i) for i in range(config.num_layers)]

    def make_block(self, config, index: int) -> keras.layers.Layer:
        dilation = config.dilation_base**index
        return GatedConvolution(config.hidden_dim, config.kernel_size, config.dropout, dilation, name=f"block_{index}")

    def call(self, features, training=None):
        real = ops.cast(features["padding_mask"], "bool")
        x = self.embedding(features["token_ids"], training=training)  # (B, L, D)
        for block in self.blocks:
            x = block(x, real, training=training)
        x = x * ops.expand_dims(ops.cast(real, x.dtype), -1)
        return {"sequence_output": x, "pooled_output": mean_state(x, real)}


# base: the encoder for WMT 2014 English to German (section 4.3), without its wider last layers. tiny is ours.
SIZES = {
    "tiny": {"hidden_dim": 128, "num_layers": 4, "dropout": 0.1},
    "base": {"hidden_dim": 512, "num_layers": 15},
}
