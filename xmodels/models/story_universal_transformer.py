"""A Universal Transformer over stories, for bAbI at the level of sentences (Dehghani et al., 2018, section 3.1)."""

import dataclasses

import keras
from keras import ops

from xmodels.layers.attention.visible import Visible
from xmodels.layers.positions import PositionSignal
from xmodels.layers.stories import StoryEmbedding
from xmodels.models.backbone import Backbone
from xmodels.models.story_transformer import STORY, create_weights
from xmodels.models.transformer import mixer_of, size
from xmodels.models.universal_transformer import (
    BLOCKS,
    UniversalTransformer,
    UniversalTransformerConfig,
    norm_of,
    transition_of,
)


@dataclasses.dataclass(frozen=True)
class StoryUniversalTransformerConfig(UniversalTransformerConfig):
    """`num_layers` counts steps; lengths are as in `StoryTransformerConfig`. There is no decoder."""

    max_sentence_length: int = 16


@keras.saving.register_keras_serializable("xmodels")
class StoryUniversalTransformer(Backbone):
    """The encoder of a Universal Transformer over sentences. Call arguments and results as in `StoryTransformer`."""

    config_class = StoryUniversalTransformerConfig
    reads = STORY
    make_steps = UniversalTransformer.make_steps

    def __init__(self, config: StoryUniversalTransformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = StoryEmbedding(config, name="embedding")
        self.position = PositionSignal(config.position, config.hidden_dim, config.max_sequence_length, name="position")
        parts = mixer_of(config), transition_of(config, is_causal=False)
        block, _ = BLOCKS[config.norm, config.transition]
        self.block = block(*parts, config.dropout, config.layer_norm_epsilon, name="block")
        self.steps = self.make_steps(config, config.num_layers, "steps")
        self.norm = norm_of(config, "norm")

    def call(self, features, visible=None, training=None):
        visible = visible or Visible(features["padding_mask"])

        def advance(x, step):
            return self.block(x, visible=visible, training=training)

        x, others = self._run(features, advance, training)
        return {"sequence_output": self.norm(x), **others}

    def _run(self, features, advance, training=None):
        x = self.embedding(features["token_ids"], features["segment_ids"], training=training)  # (B, S, D)
        places = self.position(ops.arange(ops.shape(x)[1], dtype="int32"))  # (S, D)
        return self.steps.run(x, places, advance, features["padding_mask"])

    def attention_maps(self, features):
        """Returns the attention probabilities of each step, float32 (B, H, S, S) each, including positions that have halted."""
        visible, maps = Visible(features["padding_mask"]), []

        def advance(x, step):
            maps.append(self.block.attention_map(x, visible))
            return self.block(x, visible=visible)

        self._run(features, advance)
        return maps

    def initialize(self):
        return create_weights(self)


SIZES = {"tiny": size(4, 128, 4, 512), "mini": size(8, 128, 4, 512)}
