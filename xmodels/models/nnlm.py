"""The neural probabilistic language model of Bengio et al. (2003, JMLR 3), which predicts a word from the n - 1 words before it."""

import dataclasses

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.models.carried import CarriedBackbone
from xmodels.models.config import NOTHING, TokenConfig


@dataclasses.dataclass(frozen=True)
class NnlmConfig(TokenConfig):
    """Sizes of the network.

    Fields:
        hidden_dim: h, the units of the hidden layer; with `direct_connections` also the vectors of the words beside them.
        embedding_dim: m, the width of a word's vector.
        order: n. Each word is predicted from the n - 1 words before it.
        direct_connections: whether the output layer also sees the vectors of the words (W in the paper), not the hidden layer only.
        dropout: of the heads of tasks; the network itself has none.
        initial_scale: weights are initialized with uniform(-`initial_scale`, `initial_scale`).
    """

    embedding_dim: int = 30
    order: int = 5
    direct_connections: bool = False
    dropout: float = 0.1
    initial_scale: float = 0.1

    bounds = {"order": (2, 100)}

    @property
    def context_dim(self) -> int:
        """The width of the vectors of n - 1 words beside each other."""
        return (self.order - 1) * self.embedding_dim

    @property
    def num_units(self) -> int:
        """h, the units of the hidden layer."""
        return self.hidden_dim - self.context_dim if self.direct_connections else self.hidden_dim

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `TokenConfig`: the context, the hidden layer, and their gradients."""
        return 12 * (self.hidden_dim + self.context_dim)

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        self._check_table("hidden_dim", "context_dim", source, spelled)
        if self.num_units < 1:
            raise CheckpointError(
                f"{source}: with `direct_connections`, `hidden_dim` must be more than the {self.context_dim} dimensions of "
                f"{self.order - 1} words, which stand beside the units of the hidden layer. Found: {self.hidden_dim}."
            )


@keras.saving.register_keras_serializable("xmodels")
class Nnlm(CarriedBackbone):
    """A causal network that sees the last n - 1 words, equation 1 of section 2 without its output layer.

    Call arguments:
        features: `token_ids` int (B, N); for a segment with a past also `memory` float32 (B, n - 2, m), the vectors of the words
            before it, zeros where there is none.

    Returns:
        A dictionary of `sequence_output` (B, N, D), the hidden layer and, with direct connections, the words that it reads, and, if
        `memory` is given, `memory` behind the last word, without gradient.
    """

    config_class = NnlmConfig

    def __init__(self, config: NnlmConfig, **kwargs):
        super().__init__(config, **kwargs)
        scale = keras.initializers.RandomUniform(-config.initial_scale, config.initial_scale)
        self.embedding = keras.layers.Embedding(config.vocabulary_size, config.embedding_dim, scale)
        self.hidden = keras.layers.Dense(config.num_units, activation="tanh", kernel_initializer=scale)

    @classmethod
    def word_vectors(cls, values):
        return values["backbone.embedding.embeddings"]

    def initial_memory(self, batch_size: int, memory_length: int | None = None) -> dict:
        """Returns the feature `memory` for the beginning of texts. `memory_length` is ignored: n - 2 words are all that is read."""
        return {"memory": ops.zeros((batch_size, self.config.order - 2, self.config.embedding_dim), "float32")}

    def run(self, token_ids, memory, training=False):
        words = self.embedding(token_ids)  # (B, N, m)
        length = ops.shape(token_ids)[1]
        words = ops.concatenate([ops.cast(memory, words.dtype), words], axis=1)  # (B, n - 2 + N, m)
        context = [words[:, i : i + length] for i in range(self.config.order - 1)]  # each word and those before it
        context = ops.concatenate(context, axis=-1)  # (B, N, (n - 1) m)
        states = self.hidden(context)
        if self.config.direct_connections:
            states = ops.concatenate([states, context], axis=-1)
        return states, ops.cast(words[:, length:], "float32")


# Table 1, on the Brown corpus: base is the best of its networks (MLP9), small the one with direct connections (MLP5). tiny is ours.
SIZES = {
    "tiny": {"hidden_dim": 64, "embedding_dim": 32},
    "small": {"hidden_dim": 50 + 120, "embedding_dim": 30, "direct_connections": True},
    "base": {"hidden_dim": 100, "embedding_dim": 30},
}
