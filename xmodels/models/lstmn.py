"""LSTMN: Long Short-Term Memory-Networks for Machine Reading (Cheng, Dong and Lapata, 2016, arXiv 1601.06733), trained on labelled
texts from random weights."""

import dataclasses

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.embeddings import word_vectors
from xmodels.layers.memory_tape import MemoryTapeLstm
from xmodels.layers.pooling import mean_state
from xmodels.models.backbone import Backbone
from xmodels.models.config import LayersConfig


@dataclasses.dataclass(frozen=True)
class LstmnConfig(LayersConfig):
    """Sizes of the network. Texts may have any length; a step costs as much as there are steps before it."""

    num_layers: int = 1
    embedding_dim: int = 300
    dropout: float = 0.5

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `LayersConfig`; each step also keeps what attention computes of all places of the tape."""
        return super().kept_bytes(length, rematerialize) + 4 * 5 * self.hidden_dim * length * self.num_layers


@keras.saving.register_keras_serializable("xmodels")
class Lstmn(Backbone):
    """Stacked LSTMs that read from left to right, each of which attends to its states so far.

    Every layer above the first reads the word vectors beside the states below it (section 3.2, the deep LSTMN).

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), padded on the right.

    Returns:
        A dictionary of `sequence_output` (B, L, D), zeros at padding, and `pooled_output` (B, D), the mean of the real tokens
        (section 5.2).
    """

    config_class = LstmnConfig
    from_labels = True
    any_length = True

    def __init__(self, config: LstmnConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = word_vectors(config.vocabulary_size, config.embedding_dim, name="embedding")
        self.recurrent_layers = [MemoryTapeLstm(config.hidden_dim, name=f"layer_{i}") for i in range(config.num_layers)]
        self.dropout = Dropout(config.dropout)

    def call(self, features, training=None):
        real = ops.cast(features["padding_mask"], "bool")
        words = self.dropout(self.embedding(features["token_ids"]), training=training)  # (B, L, E)
        x = self.recurrent_layers[0](words)
        for layer in self.recurrent_layers[1:]:
            x = layer(ops.concatenate([self.dropout(x, training=training), words], axis=-1))
        x = x * ops.expand_dims(ops.cast(real, x.dtype), -1)
        return {"sequence_output": x, "pooled_output": mean_state(x, real)}


# base: the paper's for sentiment (section 5.2); tiny is ours.
SIZES = {
    "tiny": {"hidden_dim": 64, "num_layers": 1, "embedding_dim": 64, "dropout": 0.1},
    "base": {"hidden_dim": 168, "num_layers": 1, "embedding_dim": 300},
}
