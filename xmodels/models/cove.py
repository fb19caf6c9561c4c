"""The encoder of CoVe: bidirectional LSTMs over word vectors, trained to translate (McCann et al., 2017, arXiv 1708.00107)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from data_pipelines.features import Feature
from xmodels.layers.biattentive import NORMS
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import uniform
from xmodels.layers.pooling import last_state
from xmodels.layers.recurrent import TextsBidirectional
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING, LayersConfig


@dataclasses.dataclass(frozen=True)
class CoveConfig(LayersConfig):
    """Sizes of the network; those of the paper are in parentheses. Texts may have any length.

    Attributes:
        hidden_dim: the width of what tasks read, word vector and states of the encoder together (900).
        embedding_dim: the width of word vectors (300); None for about a third of `hidden_dim`.
        num_layers: BiLSTMs of the encoder, and LSTMs of the decoder (2).
        dropout: on word vectors, between layers and on what leaves (0.2).
        initial_scale: weights begin uniform between this number and its negative (0.1).
        maxout_norm: that of the biattentive network on top, `layer` or `batch`. Tasks have `batch`, as in the paper, and folders
            of before it could be chosen `layer`.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {**LayersConfig.choices, "maxout_norm": tuple(NORMS)}

    num_layers: int = 2
    embedding_dim: int | None = None
    dropout: float = 0.2
    initial_scale: float = 0.1
    maxout_norm: str = "layer"

    def __post_init__(self):
        if self.embedding_dim is None:
            object.__setattr__(self, "embedding_dim", self.hidden_dim - 2 * (self.hidden_dim // 3))

    @property
    def encoder_dim(self) -> int:
        """The width of both directions of the encoder together (600)."""
        return self.hidden_dim - self.embedding_dim

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        if self.encoder_dim < 2 or self.encoder_dim % 2:
            raise CheckpointError(
                f"{source}: `hidden_dim` must exceed `embedding_dim` by an even number, the width of both directions of the encoder. "
                f"Found: {self.hidden_dim} and {self.embedding_dim}."
            )


@keras.saving.register_keras_serializable("xmodels")
class Cove(Backbone):
    """Word vectors, and beside each what the encoder of a translator makes of the word in its text.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), padded on the right. Of two texts in a row also `segment_ids` int
            (B, L), 1 on the second one; neither knows of the other.

    Returns:
        A dictionary of `sequence_output` (B, L, D), [word vector; CoVe], zeros at padding; `encoder_output` (B, L, K), CoVe alone; and
        `encoder_states` (B, 2 * num_layers, K), h and c of each layer behind a text, both directions side by side.
    """

    config_class = CoveConfig
    any_length = True
    may_read = {"segment_ids": Feature((None,))}
    unknown_words_are_zeros = True

    def __init__(self, config: CoveConfig, **kwargs):
        super().__init__(config, **kwargs)
        make, size = uniform(config.initial_scale), (config.vocabulary_size, config.embedding_dim)
        self.embedding = keras.layers.Embedding(*size, make(), name="embedding")
        self.recurrent_layers = [
            TextsBidirectional(config.encoder_dim // 2, make, name=f"layer_{i}") for i in range(config.num_layers)
        ]
        self.dropout = Dropout(config.dropout)

    def call(self, features, training=None):
        words, layers, cells = self._run(features, training)
        half = self.config.encoder_dim // 2
        last = [
            ops.concatenate([last_state(x[..., :half], features["padding_mask"]), x[:, 0, half:]], axis=-1)
            for pair in zip(layers, cells, strict=True)
            for x in pair
        ]
        found = self.dropout(layers[-1], training=training)
        both = ops.concatenate([words, ops.cast(found, words.dtype)], axis=-1)
        return {"sequence_output": both, "encoder_output": found, "encoder_states": ops.stack(last, axis=1)}

    def hidden_states(self, features, training=None):
        """Returns the word vectors (B, L, E), the states of each layer but the last (B, L, K), and the `sequence_output`."""
        words, layers, _ = self._run(features, training)
        return [words, *layers[:-1], ops.concatenate([words, ops.cast(layers[-1], words.dtype)], axis=-1)]

    def _run(self, features, training=False):
        """Returns the word vectors, (B, L, E), zeros at padding, and the outputs and cells of each layer, (B, L, K) each."""
        mask, segments = features["padding_mask"], features.get("segment_ids")
        words = self.embedding(features["token_ids"])
        words = words * ops.expand_dims(ops.cast(mask, words.dtype), -1)
        x, layers, cells = words, [], []
        for layer in self.recurrent_layers:
            x, inner = layer(self.dropout(x, training=training), mask, segments)
            layers.append(x)
            cells.append(inner)
        return words, layers, cells


# `base` is the paper's; the others are ours.
SIZES = {
    "tiny": {"hidden_dim": 96, "embedding_dim": 32},
    "small": {"hidden_dim": 300, "embedding_dim": 100},
    "base": {"hidden_dim": 900, "embedding_dim": 300},
}
