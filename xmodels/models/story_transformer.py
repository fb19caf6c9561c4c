"""A Transformer over stories: each sentence is a position, and the question the last one. The baseline of the Universal
Transformer on bAbI (Dehghani et al., 2018, section 3.1)."""

import dataclasses

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import PreNormBlock
from xmodels.layers.norms import LayerNorm
from xmodels.layers.positions import PositionSignal
from xmodels.layers.stories import StoryEmbedding
from xmodels.models.backbone import Backbone
from xmodels.models.transformer import TransformerConfig, feedforward_of, mixer_of, size

STORY = {
    "token_ids": Feature((None, None)), "segment_ids": Feature((None,)), "padding_mask": Feature((None,), "bool"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class StoryTransformerConfig(TransformerConfig):
    """`max_sequence_length` counts the sentences and the question, `max_sentence_length` the words of one. There is no decoder."""

    max_sentence_length: int = 16


@keras.saving.register_keras_serializable("xmodels")
class StoryTransformer(Backbone):
    """An encoder of pre-norm blocks over sentences.

    Call arguments:
        features: `token_ids` int (B, S, W), S sentences of at most W words; `segment_ids` int (B, S), 1 for the question;
            `padding_mask` bool (B, S), True on real sentences.
        visible: a `Visible`, which sentences a sentence attends to; by default all real ones.

    Returns:
        A dictionary of `sequence_output` (B, S, D).
    """

    config_class = StoryTransformerConfig
    reads = STORY

    def __init__(self, config: StoryTransformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = StoryEmbedding(config, name="embedding")
        self.position = PositionSignal(config.position, config.hidden_dim, config.max_sequence_length, name="position")
        self.blocks = [self.make_block(config, i) for i in range(config.num_layers)]
        self.norm = LayerNorm(epsilon=config.layer_norm_epsilon, name="norm")

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
        """Returns the attention probabilities of every block, num_layers tensors float32 (B, H, S, S)."""
        x, visible, maps = self._read(features), Visible(features["padding_mask"]), []
        for block in self.blocks:
            maps.append(block.attention_map(x, visible))
            x = block(x, visible=visible)
        return maps

    def initialize(self):
        return create_weights(self)


def create_weights(backbone: Backbone) -> Backbone:
    """Creates all weights by calling the network on a story of two sentences. Returns the network."""
    backbone(
        {
            "token_ids": ops.ones((1, 2, 1), "int32"),
            "segment_ids": ops.zeros((1, 2), "int32"),
            "padding_mask": ops.ones((1, 2), "bool"),
        }
    )
    return backbone


SIZES = {"tiny": size(2, 128, 4, 512), "mini": size(4, 128, 4, 512)}
