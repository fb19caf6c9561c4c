"""BERT: Pre-training of Deep Bidirectional Transformers (Devlin, Chang, Lee, Toutanova, 2018, arXiv 1810.04805)."""

import dataclasses

import keras

from data_pipelines.features import Feature
from xmodels.layers import initialization as initializations
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import PostNormBlock, attention_maps, attention_scores
from xmodels.layers.embeddings import SumEmbedding
from xmodels.layers.feedforward import FeedForward
from xmodels.layers.initialization import truncated_normal
from xmodels.layers.mixers import mixer_for
from xmodels.layers.rows import take_rows
from xmodels.models.backbone import Backbone
from xmodels.models.mixing import MixerConfig


@dataclasses.dataclass(frozen=True)
class BertConfig(MixerConfig):
    """`activation` is "gelu_tanh" in Google's code and "gelu", the erf form, in Hugging Face's."""

    num_segments: int = 2
    attention_dropout: float = 0.1
    activation: str = "gelu_tanh"
    layer_norm_epsilon: float = 1e-12
    initializer_stddev: float = 0.02


class Encoder(Backbone):
    """Base class of encoders such as BERT, with their hidden states and attention maps. Subclasses have `embed` and `blocks`."""

    @property
    def passes(self):
        return list(self.blocks)

    def call(self, features, visible=None, training=None):
        visible = default_visible(features) if visible is None else visible
        x = self.embed(features, training)  # (B, L, D)
        for block in self.blocks:
            x = block(x, visible=visible, training=training)
        return {"sequence_output": self.finish(x)}

    def finish(self, x):
        """Returns what follows the last block; here the states as they are."""
        return x

    def hidden_states(self, features, training=None):
        """Returns the outputs of the embedding and of every block, num_layers + 1 tensors (B, L, D)."""
        visible = default_visible(features)
        states = [self.embed(features, training)]
        for block in self.blocks:
            states.append(block(states[-1], visible=visible, training=training))
        return [*states[:-1], self.finish(states[-1])]

    def attention_maps(self, features):
        """Returns the attention probabilities of every block, num_layers tensors float32 (B, H, L, L)."""
        return attention_maps(self.blocks, self.hidden_states(features), default_visible(features))

    def attention_scores(self, features, states):
        return attention_scores(self.blocks, states, default_visible(features))


@keras.saving.register_keras_serializable("xmodels")
class Bert(Encoder):
    """A stack of post-norm encoder blocks over the sum of token, segment and position embeddings.

    Call arguments:
        features: `token_ids` int (B, L), `segment_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens.
            Packed rows of up to K examples also have `pack_ids` and `position_ids` int (B, L) and `pack_starts` int (B, K).
            `global_ids` int (B, L) marks the tokens that mixers with global tokens let see all others.
        visible: a `Visible`, which tokens a token attends to; by default all real tokens, in packed rows those of its example.

    Returns:
        A dictionary of `sequence_output` (B, L, D) and `pooled_output` (B, D), tanh(Dense) of the state of the first token; for
        packed rows (B, K, D), of the first token of each example.
    """

    config_class = BertConfig
    mixer_must_support = frozenset({"padding"})
    reads = {**Backbone.reads, "segment_ids": Feature((None,))}
    may_read = {
        **dict.fromkeys(("pack_ids", "position_ids", "global_ids"), Feature((None,))), "pack_starts": Feature((None,))
    }  # fmt: skip

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = self.make_embedding(config)
        shared: dict = {}
        self.blocks = [
            post_norm_block(config, index, self.mixer_must_support, shared) for index in range(config.num_layers)
        ]
        initializer = truncated_normal(config.initializer_stddev)
        self.pooler = keras.layers.Dense(config.hidden_dim, "tanh", kernel_initializer=initializer, name="pooler")

    def make_embedding(self, config):
        """Returns the layer that `embed` calls."""
        return SumEmbedding(config, name="embedding")

    def embed(self, features, training=None):
        """Returns the embeddings, (B, L, D)."""
        positions = features.get("position_ids")
        return self.embedding(features["token_ids"], features["segment_ids"], positions, training=training)

    def call(self, features, visible=None, training=None):
        x = super().call(features, visible, training)["sequence_output"]
        first = x[:, 0]  # (B, D)
        if "pack_ids" in features:
            first = take_rows(x, features["pack_starts"])  # (B, K, D)
        return {"sequence_output": x, "pooled_output": self.pooler(first)}

    def summarize(self, features, training=None):
        """Returns only the `pooled_output` of a call. The last block is computed for the first token only.

        That saves ten twelfths of this block; with four blocks, a fifth of the network.
        """
        if "pack_ids" in features:
            return self(features, training=training)
        visible = default_visible(features)
        x = self.embed(features, training)
        for block in self.blocks[:-1]:
            x = block(x, visible=visible, training=training)
        first = self.blocks[-1](x[:, :1], visible=visible, context=x, training=training)  # (B, 1, D)
        return {"pooled_output": self.pooler(first[:, 0])}


def post_norm_block(
    config, index: int, required: frozenset[str], shared: dict, initialization=None, **layers
) -> PostNormBlock:
    """Returns a block of BERT.

    Args:
        index: the number of the block.
        required: the fields of `Visible` that its mixer must support.
        shared: layers that the mixers of several blocks use, as in `mixer_for`.
        initialization: of its kernels; by default BERT's.
        layers: layers of another block to use, by name, such as `mixer` and `mixer_norm`.
    """
    initialization = initialization or initializations.bert(config.initializer_stddev)
    parts = {
        "mixer": lambda: mixer_for(config, initialization, required, index, shared),
        "feedforward": lambda: FeedForward(
            config.hidden_dim, config.intermediate_dim, config.activation, initialization
        ),
    }
    parts = {name: layers.pop(name, None) or make() for name, make in parts.items()}
    name = f"block_{index}"
    return PostNormBlock(**parts, **layers, dropout=config.dropout, epsilon=config.layer_norm_epsilon, name=name)


def default_visible(features) -> Visible:
    """Returns the default `visible`: a token attends to all real tokens, in packed rows to those of its own example."""
    if "pack_ids" in features:
        return Visible(packs=features["pack_ids"])
    return Visible(features["padding_mask"], global_ids=features.get("global_ids"))


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
