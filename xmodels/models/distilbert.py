"""DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter (Sanh et al., 2019, arXiv 1910.01108)."""

import dataclasses

import keras

from data_pipelines.features import Feature
from xmodels.layers.embeddings import SumEmbedding
from xmodels.models import bert
from xmodels.models.bert import BertConfig, Encoder, post_norm_block


@dataclasses.dataclass(frozen=True)
class DistilBertConfig(BertConfig):
    """BERT's configuration without segments."""

    bounds = BertConfig.bounds | {"num_segments": (0, 0)}

    num_segments: int = 0
    activation: str = "gelu"


@keras.saving.register_keras_serializable("xmodels")
class DistilBert(Encoder):
    """BERT's encoder without segments and without a pooler (section 3).

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens. Packed rows also have `pack_ids` and
            `position_ids` int (B, L). `global_ids` as in `Bert`.
        visible: as of `Bert`.

    Returns:
        A dictionary of `sequence_output` (B, L, D).
    """

    config_class = DistilBertConfig
    mixer_must_support = frozenset({"padding"})
    may_read = dict.fromkeys(("pack_ids", "position_ids", "global_ids"), Feature((None,)))

    def __init__(self, config: DistilBertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = SumEmbedding(config, name="embedding")
        shared: dict = {}
        self.blocks = [
            post_norm_block(config, index, self.mixer_must_support, shared) for index in range(config.num_layers)
        ]

    def embed(self, features, training=None):
        """Returns the embeddings, (B, L, D)."""
        return self.embedding(features["token_ids"], None, features.get("position_ids"), training=training)


# tiny and mini: ours, for trials. base: half of the layers of BERT's base (section 3).
SIZES = {
    "tiny": bert.SIZES["tiny"],
    "mini": bert.SIZES["mini"],
    "base": bert.SIZES["base"] | {"num_layers": 6},
}
