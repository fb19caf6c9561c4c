"""A bidirectional LSTM encoder (Schuster and Paliwal, 1997; Hochreiter and Schmidhuber, 1997), trained on labelled texts from random
weights."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.embeddings import word_vectors
from xmodels.layers.pooling import max_state
from xmodels.layers.recurrent import Bidirectional, LstmCell, Recurrent
from xmodels.models.backbone import Backbone
from xmodels.models.config import LayersConfig


@dataclasses.dataclass(frozen=True)
class BiLstmConfig(LayersConfig):
    """`hidden_dim` is the width of both directions together. Texts may have any length."""

    retired: ClassVar[frozenset[str]] = frozenset({"num_heads", "intermediate_dim", "max_sequence_length"})
    num_layers: int = 2
    embedding_dim: int = 300
    dropout: float = 0.3


@keras.saving.register_keras_serializable("xmodels")
class BiLstm(Backbone):
    """Stacked bidirectional LSTMs. Dropout is applied to the input of each layer, not between steps.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), padded on the right.

    Returns:
        A dictionary of `sequence_output` (B, L, D), zeros at padding, and `pooled_output` (B, D), the maximum over the real tokens
        in each dimension (Conneau et al., 2017, arXiv 1705.02364, section 3.2.3).

    Raises:
        ValueError: `hidden_dim` is odd.
    """

    config_class = BiLstmConfig
    from_labels = True
    any_length = True

    def __init__(self, config: BiLstmConfig, **kwargs):
        super().__init__(config, **kwargs)
        if config.hidden_dim % 2:
            raise ValueError(f"`hidden_dim` must be even, half for each direction. Received: {config.hidden_dim}.")
        self.embedding = word_vectors(config.vocabulary_size, config.embedding_dim, name="embedding")
        self.recurrent_layers = [
            Bidirectional(self.make_direction(config), self.make_direction(config), name=f"layer_{i}")
            for i in range(config.num_layers)
        ]
        self.dropout = Dropout(config.dropout)

    def make_direction(self, config) -> Recurrent:
        return Recurrent(LstmCell(config.hidden_dim // 2))

    def call(self, features, training=None):
        x, real = self.embedding(features["token_ids"]), features["padding_mask"]  # (B, L, E), (B, L)
        for layer in self.recurrent_layers:
            x = layer(self.dropout(x, training=training), real)  # (B, L, D)
        return {"sequence_output": x, "pooled_output": max_state(x, ops.cast(real, "bool"))}


def size(hidden_dim: int, num_layers: int, embedding_dim: int, dropout: float) -> dict:
    return {
        "hidden_dim": hidden_dim, "num_layers": num_layers, "embedding_dim": embedding_dim, "dropout": dropout,
    }  # fmt: skip


# All are ours. Word vectors of width 300, and 256 to 512 units per direction, are usual.
SIZES = {
    "tiny": size(128, 1, 64, 0.1),
    "base": size(512, 2, 300, 0.3),
    "large": size(1024, 2, 300, 0.5),
}
