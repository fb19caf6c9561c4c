"""A Transformer that reads stories: each sentence is a place, a question the last one. The baseline of the Universal
Transformer on bAbI (Dehghani et al., 2018, section 3.1)."""

import dataclasses

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import PreNormBlock
from xmodels.layers.positions import PositionSignal
from xmodels.layers.stories import StoryEmbedding
from xmodels.models.backbone import Backbone
from xmodels.models.transformer import TransformerConfig, feedforward_of, mixer_of, size

STORY = {
    "token_ids": Feature((None, None)), "segment_ids": Feature((None,)), "padding_mask": Feature((None,), "bool"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class StoryTransformerConfig(TransformerConfig):
    """`max_sequence_length` counts sentences with the question, `max_sentence_length` the words of one. There is no decoder."""

    max_sentence_length: int = 16


@keras.saving.register_keras_serializable("xmodels")
class StoryTransformer(Backbone):
    """An encoder of pre-norm blocks over sentences.

    Call arguments:
        features: `token_ids` int (B, S, W), `segment_ids` int (B, S), 1 at the question, `padding_mask` bool (B, S).

    Returns:
        `sequence_output` (B, S, D).
    """

    config_class = StoryTransformerConfig
    reads = STORY

    def __init__(self, config: StoryTransformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = StoryEmbedding(config, name="embedding")
        self.position = PositionSignal(config.position, config.hidden_dim, config.max_sequence_length, name="position")
        self.blocks = [self.make_block(config, i) for i in range(config.num_layers)]
        self.norm = keras.layers.LayerNormalization(epsilon=config.layer_norm_epsilon, name="norm")

    def make_block(self, config, index: int) -> keras.layers.Layer:
        parts = mixer_of(config), feedforward_of(config)
        return PreNormBlock(*parts, config.dropout, config.layer_norm_epsilon, name=f"block_{index}")

    def call(self, features, visible=None, training=None):
        visible = visible or Visible(features["padding_mask"])
        x = self._read(features, training)
        for block in self.blocks:
            x = block(x, visible=visible, training=training)
        return {"sequence_output": self.norm(x)}

    def _read(self, features, training=None):
        x = self.embedding(features["token_ids"], features["segment_ids"], training=training)  # (B, S, D)
        return x + self.position(ops.arange(ops.shape(x)[1], dtype="int32"))

    def attention_maps(self, features):
        """How much each place takes of each: num_layers tensors (B, H, S, S)."""
        x, visible, maps = self._read(features), Visible(features["padding_mask"]), []
        for block in self.blocks:
            maps.append(block.attention_map(x, visible))
            x = block(x, visible=visible)
        return maps

    def initialize(self):
        return initialized(self)


def initialized(backbone: Backbone) -> Backbone:
    """Creates all weights by a story of one sentence."""
    backbone(
        {
            "token_ids": ops.ones((1, 2, 1), "int32"),
            "segment_ids": ops.zeros((1, 2), "int32"),
            "padding_mask": ops.ones((1, 2), "bool"),
        }
    )
    return backbone


SIZES = {"tiny": size(2, 128, 4, 512), "mini": size(4, 128, 4, 512)}
