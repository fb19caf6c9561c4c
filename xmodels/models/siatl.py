"""The language model of SiATL (Chronopoulou et al., 2019, arXiv 1902.10547): LSTMs wider than the embedding, and a way back to it."""

import dataclasses

import keras
from keras import ops

from xmodels.layers.dropout import Dropout, active_seed
from xmodels.layers.locked_dropout import LockedDropout, WordDropout
from xmodels.models.carried import CarriedBackbone
from xmodels.models.lstm_lm import Lstm, LstmLMConfig


@dataclasses.dataclass(frozen=True)
class SiatlConfig(LstmLMConfig):
    """Sizes of the network, and what is dropped where. `hidden_dim` is the width of the embedding and of the states that leave.

    Attributes:
        recurrent_dim: the width of the LSTMs; None for five halves of `hidden_dim`, as in the paper.
        input_noise: the standard deviation of Gaussian noise on embeddings.
        input_dropout: of single numbers of embeddings.
        word_dropout: of whole words, wherever they occur in a batch.
        locked_input_dropout, locked_output_dropout: of dimensions of embeddings and of the states that leave, at all positions of a
            text.
        dropout: between the LSTMs.
    """

    recurrent_dim: int | None = None
    input_noise: float = 0.0
    input_dropout: float = 0.0
    word_dropout: float = 0.0
    locked_input_dropout: float = 0.0
    locked_output_dropout: float = 0.0

    @property
    def width(self) -> int:
        """The width of the LSTMs."""
        return self.recurrent_dim or 5 * self.hidden_dim // 2

    @property
    def of_lstms(self) -> LstmLMConfig:
        """The configuration of a layer of LSTMs."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(LstmLMConfig)}
        return LstmLMConfig(**fields | {"hidden_dim": self.width})


@keras.saving.register_keras_serializable("xmodels")
class Siatl(CarriedBackbone):
    """A causal network that can carry its state from segment to segment of a text. The output layer is the embedding, transposed.

    Call arguments:
        features: `token_ids` int (B, N); for a segment with a past also `memory` float32 (B, num_layers, 2, H), h and c of each
            layer.

    Returns:
        A dictionary of `sequence_output` (B, N, D) and, if `memory` is given, `memory` after the last token, without gradient.
    """

    config_class = SiatlConfig

    def __init__(self, config: SiatlConfig, **kwargs):
        super().__init__(config, **kwargs)
        uniform = keras.initializers.RandomUniform(-config.initial_scale, config.initial_scale)
        self.embedding = keras.layers.Embedding(config.vocabulary_size, config.hidden_dim, uniform)
        self.recurrent_layers = [Lstm(config.of_lstms, name=f"layer_{i}") for i in range(config.num_layers)]
        self.down = keras.layers.Dense(config.hidden_dim, name="down")
        self.word_dropout = WordDropout(config.word_dropout, config.vocabulary_size)
        self.locked_input_dropout = LockedDropout(config.locked_input_dropout)
        self.input_dropout, self.dropout = Dropout(config.input_dropout), Dropout(config.dropout)
        self.locked_output_dropout = LockedDropout(config.locked_output_dropout)

    def initial_memory(self, batch_size: int, memory_length: int | None = None) -> dict:
        """Returns the feature `memory` for the beginning of texts. `memory_length` is ignored: a state has no length."""
        shape = (batch_size, self.config.num_layers, 2, self.config.width)
        return {"memory": ops.zeros(shape, "float32")}

    def hidden_states(self, features, training=None):
        """Returns the embeddings, and the states of each LSTM, brought to their width by `down`: num_layers + 1 tensors (B, N, D)."""
        x = self.embed(features["token_ids"], training)
        states, memory = [x], self.initial_memory(ops.shape(features["token_ids"])[0])["memory"]
        for i, layer in enumerate(self.recurrent_layers):
            x, _ = layer(self.dropout(x, training=training) if i else x, memory[:, i])  # (B, N, H)
            states.append(self.down(x))
        return states

    def embed(self, token_ids, training=None):
        """Returns what the first LSTM reads: int (B, N) -> (B, N, D)."""
        x = self.word_dropout(self.embedding(token_ids), token_ids, training=training)
        x = self.locked_input_dropout(x, training=training)
        if training and self.config.input_noise:
            x += keras.random.normal(ops.shape(x), 0.0, self.config.input_noise, x.dtype, seed=active_seed())
        return self.input_dropout(x, training=training)

    def run(self, token_ids, memory, training=False):
        x, states = self.embed(token_ids, training), []  # (B, N, D)
        for i, layer in enumerate(self.recurrent_layers):
            if i:
                x = self.dropout(x, training=training)
            x, state = layer(x, memory[:, i])  # (B, N, H)
            states.append(state)
        x = self.locked_output_dropout(self.down(x), training=training)  # (B, N, D)
        return x, ops.cast(ops.stack(states, axis=1), "float32")


def _size(hidden_dim, num_layers=2, dropout=0.3, input_noise=0.1):
    return {
        "num_layers": num_layers, "hidden_dim": hidden_dim, "dropout": dropout, "input_noise": input_noise,
        "input_dropout": dropout,
    }  # fmt: skip


# `base` is that of the paper: embeddings of 400, LSTMs of 1,000. The others are ours.
SIZES = {"tiny": _size(32, 1, 0.0, 0.0), "small": _size(100), "base": _size(400)}
