"""The word vectors and context vectors of skip-gram and CBOW (Mikolov et al., 2013a, arXiv 1301.3781; 2013b, NIPS)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.initialization import RandomUniform
from xmodels.models.backbone import Backbone
from xmodels.models.config import TokenConfig


@dataclasses.dataclass(frozen=True)
class SkipGramConfig(TokenConfig):
    """`hidden_dim` is the width of a vector. `dropout` is that of the heads of tasks. There are no layers; texts may have any
    length."""

    retired: ClassVar[frozenset[str]] = frozenset(
        {"num_layers", "num_heads", "intermediate_dim", "max_sequence_length"}
    )
    dropout: float = 0.1


@keras.saving.register_keras_serializable("xmodels")
class SkipGram(Backbone):
    """A vector for each word, and another one for it as a context word. The former are the result of training.

    Call arguments:
        features: `token_ids` int (B, L).

    Returns:
        A dictionary of `sequence_output` (B, L, D), the vectors of the words, which do not depend on their context.
    """

    config_class = SkipGramConfig
    any_length = True
    word_features: ClassVar[tuple[str, ...]] = ("center_ids",)  # what `word_states` reads
    sparse_tables = ("words.embeddings", "contexts.embeddings")

    def __init__(self, config: SkipGramConfig, **kwargs):
        super().__init__(config, **kwargs)
        bound = 0.5 / config.hidden_dim
        size = config.vocabulary_size, config.hidden_dim
        self.words = keras.layers.Embedding(*size, RandomUniform(-bound, bound), name="words")
        self.contexts = keras.layers.Embedding(*size, "zeros", name="contexts")
        self.contexts.build(None)

    @classmethod
    def word_vectors(cls, values):
        return values["backbone.words.embeddings"]

    def call(self, features, training=None):
        return {"sequence_output": self.words(features["token_ids"])}

    def word_states(self, batch):
        """Returns the vectors of `center_ids`, (B, L, D), and how many rows each of them is the mean of, (B, L)."""
        centers = batch["center_ids"]
        return self.words(centers), ops.ones(centers.shape, "float32")


# 100 is the default of word2vec.c, 300 the width of the vectors for Google News.
SIZES = {
    "tiny": {"hidden_dim": 16},
    "small": {"hidden_dim": 50},
    "base": {"hidden_dim": 100},
    "large": {"hidden_dim": 300},
}
