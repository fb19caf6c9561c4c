"""GPT: Improving Language Understanding by Generative Pre-Training (Radford, Narasimhan, Salimans, Sutskever, 2018)."""

import dataclasses

import keras
from keras import ops

from xmodels.layers import initialization as initializations
from xmodels.layers import masks
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.blocks import PostNormBlock
from xmodels.layers.embeddings import TokenPositionEmbedding
from xmodels.layers.feedforward import FeedForward
from xmodels.models.backbone import Backbone, ModelConfig


@dataclasses.dataclass(frozen=True)
class GptConfig(ModelConfig):
    """GPT's "gelu" is the tanh approximation."""

    attention_dropout: float = 0.1
    activation: str = "gelu_tanh"
    layer_norm_epsilon: float = 1e-5
    initializer_stddev: float = 0.02


@keras.saving.register_keras_serializable("xmodels")
class Gpt(Backbone):
    """A stack of causal post-norm blocks over the sum of token and position embeddings.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens; `position_ids` int (B, L) and
            `pack_ids` int (B, L) where rows are padded on the left or hold several texts.
        attention_mask: bool, broadcastable to (B, H, L, L); by default every token sees real ones up to itself.

    Returns:
        `sequence_output` (B, L, D).
    """

    config_class = GptConfig
    packs = True

    def __init__(self, config: GptConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = self.make_embedding(config)
        self.blocks = [self.make_block(config, index) for index in range(config.num_layers)]

    def make_embedding(self, config: GptConfig) -> keras.layers.Layer:
        return TokenPositionEmbedding(config, name="embedding")

    def make_block(self, config: GptConfig, index: int) -> keras.layers.Layer:
        initialization = initializations.gpt(config.initializer_stddev)
        mixer = MultiHeadAttention(config.num_heads, config.hidden_dim, config.attention_dropout, initialization)
        feedforward = FeedForward(config.hidden_dim, config.intermediate_dim, config.activation, initialization)
        return PostNormBlock(mixer, feedforward, config.dropout, config.layer_norm_epsilon, name=f"block_{index}")

    def finish(self, x):
        """What follows the last block: nothing."""
        return x

    def call(self, features, attention_mask=None, training=None):
        x = self.embedding(features["token_ids"], features.get("position_ids"), training=training)  # (B, L, D)
        if attention_mask is None:
            attention_mask = self.default_mask(features)
        for block in self.blocks:
            x = block(x, attention_mask=attention_mask, training=training)
        return {"sequence_output": self.finish(x)}

    def default_mask(self, features):
        """(B, 1, L, L): causal, real tokens only, and in packed rows of the same text only."""
        packs = features.get("pack_ids")
        visible = masks.padding(features["padding_mask"]) if packs is None else masks.blocks(packs)
        return ops.logical_and(masks.causal(ops.shape(features["token_ids"])[1]), visible)

    def hidden_states(self, features):
        """What enters each block, and what leaves the network: num_layers + 1 tensors (B, L, D)."""
        attention_mask = self.default_mask(features)
        states = [self.embedding(features["token_ids"], features.get("position_ids"))]
        for block in self.blocks:
            states.append(block(states[-1], attention_mask=attention_mask))
        return [*states[:-1], self.finish(states[-1])]

    def start(self, batch_size: int, length: int):
        """Room for the keys and values of texts of at most `length` tokens: what `decode` takes as `past`."""
        config = self.config
        shape = (batch_size, length, config.num_heads, config.hidden_dim // config.num_heads)
        return tuple((ops.zeros(shape, self.compute_dtype), ops.zeros(shape, self.compute_dtype)) for _ in self.blocks)

    def decode(self, token_ids, past, position):
        """The next L tokens of texts, at the cost of L tokens.

        Args:
            token_ids: int (B, L), which stand from `position` on.
            past: of `start`, or of the call before.

        Returns:
            Their states (B, L, D), and `past` with these tokens.
        """
        positions = position + ops.arange(token_ids.shape[1], dtype="int32")  # (L,)
        attention_mask = masks.upto(positions, past[0][0].shape[1])
        x = self.embedding(token_ids, ops.expand_dims(positions, 0))
        present = []
        for block, of_block in zip(self.blocks, past, strict=True):
            x, of_block = block.step(x, of_block, position, attention_mask)
            present.append(of_block)
        return self.finish(x), tuple(present)


def size(num_layers: int, hidden_dim: int, num_heads: int, max_sequence_length: int) -> dict:
    """The numbers of a size; the inner layer is four times as wide."""
    return {
        "num_layers": num_layers,
        "hidden_dim": hidden_dim,
        "num_heads": num_heads,
        "intermediate_dim": 4 * hidden_dim,
        "max_sequence_length": max_sequence_length,
    }


# base: section 4.1. The others are ours, of the shape of the small BERTs, for trials.
SIZES = {"tiny": size(2, 128, 2, 512), "mini": size(4, 256, 4, 512), "base": size(12, 768, 12, 512)}
