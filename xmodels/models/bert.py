"""BERT: Pre-training of Deep Bidirectional Transformers (Devlin, Chang, Lee, Toutanova, 2018, arXiv 1810.04805)."""

import dataclasses

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers import initialization as initializations
from xmodels.layers import masks
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.blocks import PostNormBlock
from xmodels.layers.embeddings import SumEmbedding
from xmodels.layers.feedforward import FeedForward
from xmodels.layers.initialization import truncated_normal
from xmodels.models.backbone import Backbone, ModelConfig


@dataclasses.dataclass(frozen=True)
class BertConfig(ModelConfig):
    """`activation` is "gelu_tanh" in Google's code and "gelu", the erf form, in Hugging Face's."""

    num_segments: int = 2
    attention_dropout: float = 0.1
    activation: str = "gelu_tanh"
    layer_norm_epsilon: float = 1e-12
    initializer_stddev: float = 0.02


@keras.saving.register_keras_serializable("xmodels")
class Bert(Backbone):
    """A stack of post-norm encoder blocks over the sum of token, segment and position embeddings.

    Call arguments:
        features: `token_ids` int (B, L), `segment_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens.
            Rows of up to K examples also bring `pack_ids` and `position_ids` int (B, L) and `pack_starts` int (B, K).
        attention_mask: bool, broadcastable to (B, H, L, L); by default every token sees every real token.

    Returns:
        `sequence_output` (B, L, D) and `pooled_output` (B, D): tanh(Dense) of the first token's state; of
        rows of several examples (B, K, D), of the first token of each.
    """

    config_class = BertConfig
    packs = True
    reads = {**Backbone.reads, "segment_ids": Feature((None,))}

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = SumEmbedding(config, name="embedding")
        self.blocks = [self.make_block(config, index) for index in range(config.num_layers)]
        initializer = truncated_normal(config.initializer_stddev)
        self.pooler = keras.layers.Dense(config.hidden_dim, "tanh", kernel_initializer=initializer, name="pooler")

    def make_block(self, config: BertConfig, index: int) -> keras.layers.Layer:
        initialization = initializations.bert(config.initializer_stddev)
        mixer = MultiHeadAttention(config.num_heads, config.hidden_dim, config.attention_dropout, initialization)
        feedforward = FeedForward(config.hidden_dim, config.intermediate_dim, config.activation, initialization)
        return PostNormBlock(mixer, feedforward, config.dropout, config.layer_norm_epsilon, name=f"block_{index}")

    def call(self, features, attention_mask=None, training=None):
        positions, pack_ids = features.get("position_ids"), features.get("pack_ids")
        x = self.embedding(features["token_ids"], features["segment_ids"], positions, training=training)  # (B, L, D)
        if attention_mask is None and pack_ids is not None:
            attention_mask = masks.blocks(pack_ids)  # (B, 1, L, L)
        elif attention_mask is None:
            attention_mask = masks.padding(features["padding_mask"])  # (B, 1, 1, L)
        for block in self.blocks:
            x = block(x, attention_mask=attention_mask, training=training)
        first = x[:, 0]  # (B, D)
        if pack_ids is not None:
            first = ops.take_along_axis(x, ops.expand_dims(features["pack_starts"], -1), axis=1)  # (B, K, D)
        return {"sequence_output": x, "pooled_output": self.pooler(first)}

    def summarize(self, features, training=None):
        """`pooled_output` alone, as of a call: of the last block, nothing is computed that only other tokens need.

        That is ten twelfths of the block; with four blocks, a fifth of the network.
        """
        if "pack_ids" in features:
            return self(features, training=training)
        attention_mask = masks.padding(features["padding_mask"])
        x = self.embedding(features["token_ids"], features["segment_ids"], training=training)
        for block in self.blocks[:-1]:
            x = block(x, attention_mask=attention_mask, training=training)
        first = self.blocks[-1](x[:, :1], attention_mask=attention_mask, context=x, training=training)  # (B, 1, D)
        return {"pooled_output": self.pooler(first[:, 0])}

    def hidden_states(self, features):
        """The output of the embedding and of every block: num_layers + 1 tensors (B, L, D)."""
        attention_mask = masks.padding(features["padding_mask"])
        states = [self.embedding(features["token_ids"], features["segment_ids"])]
        for block in self.blocks:
            states.append(block(states[-1], attention_mask=attention_mask))
        return states

    def attention_maps(self, features):
        """Where each token looks: num_layers tensors (B, H, L, L)."""
        attention_mask = masks.padding(features["padding_mask"])
        states = self.hidden_states(features)
        return [block.mixer.probabilities(x, attention_mask) for block, x in zip(self.blocks, states, strict=False)]


def _size(num_layers, hidden_dim, num_heads):
    return {
        "num_layers": num_layers,
        "hidden_dim": hidden_dim,
        "num_heads": num_heads,
        "intermediate_dim": 4 * hidden_dim,
    }


# tiny to medium: Turc et al., 2019 (arXiv 1908.08962); base and large: Devlin et al., 2018.
SIZES = {
    "tiny": _size(2, 128, 2),
    "mini": _size(4, 256, 4),
    "small": _size(4, 512, 8),
    "medium": _size(8, 512, 8),
    "base": _size(12, 768, 12),
    "large": _size(24, 1024, 16),
}
