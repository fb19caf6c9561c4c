"""RoBERTa: A Robustly Optimized BERT Pretraining Approach (Liu et al., 2019, arXiv 1907.11692), as in fairseq."""

import dataclasses

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.embeddings import SumEmbedding, positions_of
from xmodels.layers.initialization import gpt
from xmodels.models import bert
from xmodels.models.bert import BertConfig, Encoder, post_norm_block


@dataclasses.dataclass(frozen=True)
class RobertaConfig(BertConfig):
    """BERT's configuration, with a single segment for all tokens and positions that count only real tokens.

    Attributes:
        first_position: the position of the first real token: the id of padding plus one, 2 in fairseq. Padding has the
            position before it. The table of positions has so many rows more than `max_sequence_length`.
    """

    num_segments: int = 1
    first_position: int = 2
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-5

    @property
    def num_positions(self) -> int:
        return self.max_sequence_length + self.first_position


@keras.saving.register_keras_serializable("xmodels")
class Roberta(Encoder):
    """BERT's encoder without segments and without a pooler. Padding may be on either side.

    As in fairseq, weights are initialized with a normal distribution that is not truncated.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens. Packed rows also have `pack_ids` and
            `position_ids` int (B, L), which count the tokens of each example from 0. `global_ids` as in `Bert`.
        visible: a `Visible`, which tokens a token attends to; by default all real tokens, in packed rows those of its example.

    Returns:
        A dictionary of `sequence_output` (B, L, D).
    """

    config_class = RobertaConfig
    mixer_must_support = frozenset({"padding"})
    may_read = dict.fromkeys(("pack_ids", "position_ids", "global_ids"), Feature((None,)))

    def __init__(self, config: RobertaConfig, **kwargs):
        super().__init__(config, **kwargs)
        initialization = gpt(config.initializer_stddev)
        self.embedding = SumEmbedding(config, config.num_positions, initialization, name="embedding")
        shared: dict = {}
        self.blocks = [
            post_norm_block(config, index, self.mixer_must_support, shared, initialization)
            for index in range(config.num_layers)
        ]

    def embed(self, features, training=None):
        """Returns the embeddings, (B, L, D)."""
        token_ids, positions = features["token_ids"], positions_from(features, self.config)
        return self.embedding(token_ids, ops.zeros_like(token_ids), positions, training=training)


def positions_from(features, config):
    """Returns the positions of tokens, int (B, L), from `first_position` of the configuration on: those of packed rows, or those of
    real tokens. Raises a ValueError if the row is too long."""
    positions_of(features["token_ids"], config.max_sequence_length)
    if "position_ids" in features:
        return features["position_ids"] + config.first_position
    return real_positions(features["padding_mask"], config.first_position)


def real_positions(padding_mask, first: int):
    """Returns `first`, `first` + 1, ... for the real tokens of each row, and `first` - 1 for padding: bool (B, L) -> int (B, L)."""
    real = ops.cast(padding_mask, "int32")
    return ops.cumsum(real, axis=1) * real + (first - 1)


# tiny to medium: ours, with the shapes of the small BERTs, for trials. base and large: table 9 of the paper.
SIZES = dict(bert.SIZES)
