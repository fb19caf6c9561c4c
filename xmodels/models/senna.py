"""The window network of Collobert et al. (2011, JMLR 12, section 3.3.1), which reads a word and those beside it."""

import dataclasses

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING, TokenConfig


@dataclasses.dataclass(frozen=True)
class SennaConfig(TokenConfig):
    """Sizes of the network. Texts may have any length.

    Attributes:
        hidden_dim: units of the hidden layer.
        embedding_dim: the width of a word's vector.
        window_size: words that are read for each word, itself among them; odd.
        dropout: of the heads of tasks; the network itself has none.
    """

    embedding_dim: int = 50
    window_size: int = 11
    dropout: float = 0.1

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `TokenConfig`: vectors, the hidden layer before and behind its activation, and their gradients."""
        return 12 * self.embedding_dim + 24 * self.hidden_dim

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        self._check_table("hidden_dim", "embedding_dim", source, spelled)
        if self.window_size % 2 == 0:
            raise CheckpointError(
                f"{source}: `window_size` must be odd, with a word in its middle. Found: {self.window_size}."
            )


@keras.saving.register_keras_serializable("xmodels")
class Senna(Backbone):
    """A hidden layer over the vectors of the words around each place.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L).

    Returns:
        A dictionary of `sequence_output` (B, L, D), the hidden layer of the window of each place, zeros at padding, and `window_sums`
        (B, L, D), the same before the activation.
    """

    config_class = SennaConfig
    any_length = True

    def __init__(self, config: SennaConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = keras.layers.Embedding(
            config.vocabulary_size, config.embedding_dim, keras.initializers.RandomNormal(stddev=0.1)
        )
        self.hidden = keras.layers.Conv1D(config.hidden_dim, config.window_size, padding="same")

    @classmethod
    def word_vectors(cls, values):
        return values["backbone.embedding.embeddings"]

    def call(self, features, training=None):
        real = ops.expand_dims(ops.cast(features["padding_mask"], self.compute_dtype), -1)  # (B, L, 1)
        sums = self.hidden(self.embedding(features["token_ids"]) * real)  # (B, L, D)
        return {"sequence_output": keras.activations.hard_tanh(sums) * real, "window_sums": sums}

    def replace_center(self, sums, token_ids, other_ids):
        """Returns what the hidden layer is with another word in the middle of each window, without reading the windows again.

        Args:
            sums: `window_sums` (B, L, D).
            token_ids: int (B, L), the words that were read.
            other_ids: int (B, L), those in their place.

        Returns:
            (B, L, D).
        """
        middle = ops.cast(self.hidden.kernel[self.config.window_size // 2], sums.dtype)  # (E, D)
        change = self.embedding(other_ids) - self.embedding(token_ids)
        return keras.activations.hard_tanh(sums + ops.matmul(change, middle))


# base: the language models of section 4.2. tiny and small are ours.
SIZES = {
    "tiny": {"hidden_dim": 32, "embedding_dim": 16, "window_size": 5},
    "small": {"hidden_dim": 100, "embedding_dim": 50, "window_size": 5},
    "base": {"hidden_dim": 100, "embedding_dim": 50},
}
