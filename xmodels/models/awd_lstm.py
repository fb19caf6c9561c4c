"""AWD-LSTM (Merity et al., 2017, arXiv 1708.02182): a language model of LSTMs in which everything is dropped that can be."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers import costs
from xmodels.layers.locked_dropout import LockedDropout, WordDropout
from xmodels.layers.weight_drop_lstm import WeightDropLstm, uniform
from xmodels.models.carried import CarriedBackbone
from xmodels.models.config import LARGEST, LayersConfig

INITIAL_SCALE = 0.1  # of the embedding (section 5)


@dataclasses.dataclass(frozen=True)
class AwdLstmConfig(LayersConfig):
    """Sizes of the network, and what is dropped where. `hidden_dim` is the width of the embedding and of the last layer.

    Attributes:
        recurrent_dim: the width of all layers but the last; None for 23 eighths of `hidden_dim`, as in the paper (1150 to 400).
        embedding_dropout: of words, wherever they occur in a batch (section 4.3).
        input_dropout, hidden_dropout, dropout: of dimensions of embeddings, of states between layers, and of those of the last layer,
            at all positions of a text alike (section 4.2).
        weight_dropout: of recurrent weights (section 2).
        activation_penalty, temporal_penalty: what the mean square of the dropped states of the last layer, and that of the difference
            of its states at neighbouring positions, count in the loss of a training (section 4.6).
        bptt: gradients flow through at most so many positions of a row, from each multiple on; 0 for all.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {
        "activation_penalty": (0, 1e6), "temporal_penalty": (0, 1e6), "bptt": (0, LARGEST),
    }  # fmt: skip

    fewest_regular_layers: ClassVar[int] = 2  # the first and the last have other widths

    num_layers: int = 3
    recurrent_dim: int | None = None
    embedding_dropout: float = 0.0
    input_dropout: float = 0.0
    hidden_dropout: float = 0.0
    weight_dropout: float = 0.0
    activation_penalty: float = 2.0
    temporal_penalty: float = 1.0
    bptt: int = 0

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of each layer. The last one has that of the embedding, which is the output matrix too."""
        wide = self.recurrent_dim or 23 * self.hidden_dim // 8
        return (*[wide] * (self.num_layers - 1), self.hidden_dim)

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `LayersConfig`, with the width of each layer."""
        return 32 * sum(self.widths)


@keras.saving.register_keras_serializable("xmodels")
class AwdLstm(CarriedBackbone):
    """A causal network that can carry its state from segment to segment of a text. The output layer is the embedding, transposed.

    Call arguments:
        features: `token_ids` int (B, N); for a segment with a past also `memory` float32 (B, S), h and c of all layers, one behind
            the other. `padding_mask` bool (B, N) may be missing; the state stays as it is at padding.

    Returns:
        A dictionary of `sequence_output` (B, N, D) and, if `memory` is given, `memory` after the last token, without gradient.
    """

    config_class = AwdLstmConfig

    def __init__(self, config: AwdLstmConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = keras.layers.Embedding(config.vocabulary_size, config.hidden_dim, uniform(INITIAL_SCALE))
        self.recurrent_layers = [
            WeightDropLstm(width, config.weight_dropout, config.bptt, name=f"layer_{i}")
            for i, width in enumerate(config.widths)
        ]
        self.embedding_dropout = WordDropout(config.embedding_dropout, config.vocabulary_size)
        self.input_dropout, self.hidden_dropout = (
            LockedDropout(config.input_dropout),
            LockedDropout(config.hidden_dropout),
        )
        self.dropout = LockedDropout(config.dropout)

    def initial_memory(self, batch_size: int, memory_length: int | None = None) -> dict:
        """Returns the feature `memory` for the beginning of texts. `memory_length` is ignored: a state has no length."""
        return {"memory": ops.zeros((batch_size, 2 * sum(self.config.widths)), "float32")}

    def call(self, features, training=None):
        token_ids, memory, mask = features["token_ids"], features.get("memory"), features.get("padding_mask")
        begins = memory is None
        if begins:
            memory = self.initial_memory(ops.shape(token_ids)[0])["memory"]
        states, memory = self.run(token_ids, memory, training, mask)
        x = self.dropout(states, training=training)
        self._add_costs(states, x, mask, training)
        outputs = {"sequence_output": x}
        return outputs if begins else {**outputs, "memory": ops.stop_gradient(memory)}

    def run(self, token_ids, memory, training=None, padding_mask=None):
        """Returns the states of the last layer, (B, N, D), and the memory after them."""
        x = self.embedding_dropout(self.embedding(token_ids), token_ids, training=training)
        x = self.input_dropout(x, training=training)  # (B, N, D)
        mask = None if padding_mask is None else ops.cast(padding_mask, "bool")
        states, place = [], 0
        for i, (layer, width) in enumerate(zip(self.recurrent_layers, self.config.widths, strict=True)):
            if i:
                x = self.hidden_dropout(x, training=training)
            x, state = layer(x, memory[:, place : place + 2 * width], mask, training=training)  # (B, N, H)
            states.append(state)
            place += 2 * width
        return x, ops.cast(ops.concatenate(states, axis=-1), "float32")

    def _add_costs(self, states, dropped, padding_mask, training) -> None:
        """Adds the penalties to the loss of a training; that of an evaluation has them as zeros."""
        real = ops.ones(ops.shape(states)[:2]) if padding_mask is None else ops.cast(padding_mask, "float32")  # (B, N)
        both = real[:, 1:] * real[:, :-1]
        for name, rate, weights, square in (
            ("activation", self.config.activation_penalty, real, lambda: dropped),
            ("temporal_activation", self.config.temporal_penalty, both, lambda: states[:, 1:] - states[:, :-1]),
        ):
            if rate:
                means = ops.mean(ops.square(ops.cast(square(), "float32")), axis=-1) if training else 0.0
                costs.add(name, ops.sum(rate * means * weights), ops.sum(weights))


def _size(hidden_dim, num_layers=3, share=1.0):
    """Returns a size with a share of the dropout of section 5 for the Penn Treebank."""
    return {
        "num_layers": num_layers, "hidden_dim": hidden_dim, "dropout": 0.4 * share, "hidden_dropout": 0.25 * share,
        "input_dropout": 0.4 * share, "embedding_dropout": 0.1 * share, "weight_dropout": 0.5 * share,
    }  # fmt: skip


# `base` is that of the paper: embeddings of 400, two LSTMs of 1150 and one of 400. The others are ours.
SIZES = {"tiny": _size(32, 2, 0.0), "small": _size(100, 3, 0.5), "base": _size(400)}
