"""The word vectors and context vectors of GloVe, with their biases (Pennington et al., 2014, EMNLP)."""

import dataclasses

import keras
from keras import ops

from xmodels.layers.initialization import RandomUniform
from xmodels.models.backbone import Backbone
from xmodels.models.config import TokenConfig


@dataclasses.dataclass(frozen=True)
class GloveConfig(TokenConfig):
    """`hidden_dim` is the width of a vector. `dropout` is that of the heads of tasks. There are no layers; texts may have any
    length."""

    dropout: float = 0.1


@keras.saving.register_keras_serializable("xmodels")
class Glove(Backbone):
    """A vector and a bias for each word, and others for it as a context word. The result of training are the sums of both vectors.

    Call arguments:
        features: `token_ids` int (B, L).

    Returns:
        A dictionary of `sequence_output` (B, L, D), the sums of both vectors of each word, which do not depend on its context.
    """

    config_class = GloveConfig
    any_length = True
    sparse_tables = (
        "words.embeddings", "contexts.embeddings", "word_biases.embeddings", "context_biases.embeddings",
    )  # fmt: skip

    def __init__(self, config: GloveConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.words, self.word_biases = self._tables("word")
        self.contexts, self.context_biases = self._tables("context")

    def _tables(self, name: str):
        """Returns the vectors (V, D) and biases (V, 1), which the released code draws alike."""
        rows, width = self.config.vocabulary_size, self.config.hidden_dim
        bound = 0.5 / width

        def table(columns: int, end: str):
            initializer = RandomUniform(-bound, bound)
            layer = keras.layers.Embedding(rows, columns, initializer, name=f"{name}_{end}")
            layer.build(None)
            return layer

        return table(width, "vectors"), table(1, "biases")

    @classmethod
    def word_vectors(cls, values):
        return values["backbone.words.embeddings"] + values["backbone.contexts.embeddings"]

    def call(self, features, training=None):
        ids = features["token_ids"]
        return {"sequence_output": self.words(ids) + self.contexts(ids)}

    def pair_parts(self, center_ids, context_ids):
        """Returns the vectors of words and of their contexts, (B, P, D) each, and the biases of both, (B, P) each."""
        biases = self.word_biases(center_ids), self.context_biases(context_ids)
        return self.words(center_ids), self.contexts(context_ids), *(ops.squeeze(bias, -1) for bias in biases)


# Widths of the published vectors; those of GloVe 6B are 50, 100, 200 and 300.
SIZES = {
    "tiny": {"hidden_dim": 16},
    "small": {"hidden_dim": 50},
    "base": {"hidden_dim": 100},
    "large": {"hidden_dim": 300},
}
