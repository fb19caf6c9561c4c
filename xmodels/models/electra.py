"""ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators (Clark et al., 2020, arXiv 2003.10555)."""

import dataclasses

import keras

from data_pipelines.features import Feature
from xmodels.layers.embeddings import SumEmbedding
from xmodels.layers.heads import MaskedLMHead
from xmodels.layers.initialization import truncated_normal
from xmodels.layers.layer import Layer
from xmodels.models.backbone import Backbone
from xmodels.models.bert import BertConfig, Encoder, default_visible, post_norm_block
from xmodels.models.config import LARGEST


@dataclasses.dataclass(frozen=True)
class ElectraConfig(BertConfig):
    """BERT's configuration, with embeddings of a width of their own.

    Attributes:
        embedding_dim: the width of the embeddings, which are projected to `hidden_dim` where the two differ; 0 for `hidden_dim`.
    """

    bounds = BertConfig.bounds | {"embedding_dim": (0, LARGEST)}

    embedding_dim: int = 0
    activation: str = "gelu"

    def __post_init__(self):
        super().__post_init__()
        if not self.embedding_dim:
            object.__setattr__(self, "embedding_dim", self.hidden_dim)

    @property
    def has_projection(self) -> bool:
        return self.embedding_dim != self.hidden_dim


@keras.saving.register_keras_serializable("xmodels")
class Electra(Encoder):
    """BERT's encoder without a pooler, on embeddings that may be narrower than its states (section 3.2).

    Call arguments:
        features: as of `Bert`, without `pack_starts`.
        visible: as of `Bert`.

    Returns:
        A dictionary of `sequence_output` (B, L, D).
    """

    config_class = ElectraConfig
    mixer_must_support = frozenset({"padding"})
    reads = {**Backbone.reads, "segment_ids": Feature((None,))}
    may_read = dict.fromkeys(("pack_ids", "position_ids", "global_ids"), Feature((None,)))

    def __init__(self, config: ElectraConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = SumEmbedding(config, name="embedding")
        if config.has_projection:
            self.embedding_projection = make_projection(config)
        shared: dict = {}
        self.blocks = [
            post_norm_block(config, index, self.mixer_must_support, shared) for index in range(config.num_layers)
        ]

    def embed(self, features, training=None):
        """Returns the embeddings, projected to the width of the states, (B, L, D)."""
        x = embed(self.embedding, features, training)  # (B, L, E)
        return self.embedding_projection(x) if self.config.has_projection else x


class Generator(Layer):
    """A small masked language model on the embeddings of another network (section 2).

    Args:
        config: its sizes; `embedding_dim` is that of the other network.

    Call arguments:
        features: `token_ids` with masks and `segment_ids` int (B, L), `padding_mask` bool (B, L), `mask_positions` int (B, P).
        embedding: the embedding layer of the other network.

    Returns:
        float32 logits at the masked positions, (B, P, V)
    """

    def __init__(self, config: ElectraConfig, **kwargs):
        super().__init__(**kwargs)
        if config.has_projection:
            self.embedding_projection = make_projection(config)
        self.projects = config.has_projection
        shared: dict = {}
        required = Electra.mixer_must_support
        self.blocks = [post_norm_block(config, index, required, shared) for index in range(config.num_layers)]
        self.head = MaskedLMHead(config, name="head")

    def call(self, features, embedding, training=None):
        visible = default_visible(features)
        x = embed(embedding, features, training)  # (B, L, E)
        x = self.embedding_projection(x) if self.projects else x
        for block in self.blocks:
            x = block(x, visible=visible, training=training)
        return self.head(x, features["mask_positions"], token_embedding=embedding.token)


def embed(embedding: SumEmbedding, features, training=None):
    """Returns the embeddings before they are projected, (B, L, E)."""
    ids = features["token_ids"], features["segment_ids"]
    return embedding(*ids, features.get("position_ids"), training=training)


def make_projection(config) -> keras.layers.Dense:
    """Returns the layer from the width of embeddings to that of states."""
    initializer = truncated_normal(config.initializer_stddev)
    return keras.layers.Dense(config.hidden_dim, kernel_initializer=initializer, name="embedding_projection")


def _size(num_layers, hidden_dim, num_heads, embedding_dim):
    return {
        "num_layers": num_layers,
        "hidden_dim": hidden_dim,
        "num_heads": num_heads,
        "intermediate_dim": 4 * hidden_dim,
        "embedding_dim": embedding_dim,
    }


# tiny and mini are ours, with the shapes of the small BERTs, for trials; the others are those of table 6 of the paper.
SIZES = {
    "tiny": _size(2, 128, 2, 128),
    "mini": _size(4, 256, 4, 128),
    "small": _size(12, 256, 4, 128),
    "base": _size(12, 768, 12, 768),
    "large": _size(24, 1024, 16, 1024),
}
