"""MPNet: Masked and Permuted Pre-training for Language Understanding (Song et al., 2020, arXiv 2004.09297)."""

import dataclasses

import keras

from data_pipelines.features import Feature
from xmodels.layers.embeddings import SumEmbedding
from xmodels.layers.initialization import gpt
from xmodels.layers.relative_buckets import BiasedAttention, RelativeBuckets
from xmodels.models import bert
from xmodels.models.bert import Encoder, post_norm_block
from xmodels.models.config import AttentionConfig
from xmodels.models.roberta import positions_from


@dataclasses.dataclass(frozen=True)
class MpnetConfig(AttentionConfig):
    """Sizes as of BERT, without segments.

    Attributes:
        first_position: as in `RobertaConfig`.
        num_buckets, max_distance: of relative positions, see `RelativeBuckets`.
    """

    num_segments = 0

    attention_dropout: float = 0.1
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-5
    initializer_stddev: float = 0.02
    first_position: int = 2
    num_buckets: int = 32
    max_distance: int = 128

    @property
    def num_positions(self) -> int:
        return self.max_sequence_length + self.first_position


@keras.saving.register_keras_serializable("xmodels")
class Mpnet(Encoder):
    """RoBERTa's encoder with a bias for each relative position, which all blocks share, beside the absolute positions.

    Call arguments:
        features: as of `Roberta`, without `global_ids`.
        visible: as of `Roberta`.

    Returns:
        A dictionary of `sequence_output` (B, L, D).
    """

    config_class = MpnetConfig
    may_read = dict.fromkeys(("pack_ids", "position_ids"), Feature((None,)))

    def __init__(self, config: MpnetConfig, **kwargs):
        super().__init__(config, **kwargs)
        initialization = gpt(config.initializer_stddev)
        self.embedding = SumEmbedding(config, config.num_positions, initialization, name="embedding")
        self.buckets = RelativeBuckets(
            config.num_heads, config.num_buckets, config.max_distance, bidirectional=True,
            initializer=initialization.inner(), name="buckets",
        )  # fmt: skip

        def mixer():
            sizes = config.num_heads, config.hidden_dim, config.attention_dropout
            return BiasedAttention(*sizes, initialization, buckets=self.buckets)

        self.blocks = [
            post_norm_block(config, index, frozenset(), {}, initialization, mixer=mixer())
            for index in range(config.num_layers)
        ]

    def embed(self, features, training=None):
        """Returns the embeddings, (B, L, D)."""
        return self.embedding(features["token_ids"], None, positions_from(features, self.config), training=training)


# tiny and mini: ours, for trials. base: section 4.1.
SIZES = {name: bert.SIZES[name] for name in ("tiny", "mini", "base")}
