"""GPT-2: Language Models are Unsupervised Multitask Learners (Radford et al., 2019)."""

import dataclasses

import keras

from xmodels.layers import initialization as initializations
from xmodels.layers.blocks import PreNormBlock
from xmodels.layers.embeddings import TokenPositionEmbedding
from xmodels.layers.feedforward import FeedForward
from xmodels.layers.mixers import mixer_for
from xmodels.layers.norms import LayerNorm
from xmodels.models.gpt import Gpt, GptConfig, size


@dataclasses.dataclass(frozen=True)
class Gpt2Config(GptConfig):
    """The initial position embeddings have half the standard deviation of those of tokens, as in the authors' code."""

    max_sequence_length: int = 1024
    position_stddev: float = 0.01


@keras.saving.register_keras_serializable("xmodels")
class Gpt2(Gpt):
    """GPT with pre-norm blocks, a final norm, and smaller initial weights of residual projections (section 2.3).

    Call arguments and results as in `Gpt`.
    """

    config_class = Gpt2Config

    def __init__(self, config: Gpt2Config, **kwargs):
        super().__init__(config, **kwargs)
        self.norm = LayerNorm(epsilon=config.layer_norm_epsilon, name="norm")

    def make_embedding(self, config: Gpt2Config) -> keras.layers.Layer:
        return TokenPositionEmbedding(config, config.position_stddev, name="embedding")

    def make_block(self, config: Gpt2Config, index: int, shared: dict) -> keras.layers.Layer:
        initialization = initializations.gpt2(config.initializer_stddev, config.num_layers)
        mixer = mixer_for(config, initialization, self.mixer_must_support, index, shared)
        feedforward = FeedForward(config.hidden_dim, config.intermediate_dim, config.activation, initialization)
        return PreNormBlock(mixer, feedforward, config.dropout, config.layer_norm_epsilon, name=f"block_{index}")

    def finish(self, x):
        return self.norm(x)


# Table 2; base to xl are called 117M (which has 124 million parameters), 345M, 762M and 1542M there. tiny and mini are ours.
SIZES = {
    "tiny": size(2, 128, 2, 1024),
    "mini": size(4, 256, 4, 1024),
    "base": size(12, 768, 12, 1024),
    "medium": size(24, 1024, 16, 1024),
    "large": size(36, 1280, 20, 1024),
    "xl": size(48, 1600, 25, 1024),
}
