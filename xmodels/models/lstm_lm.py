"""A language model of stacked LSTMs (Hochreiter and Schmidhuber, 1997), as in Zaremba et al. (2014, arXiv 1409.2329)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.recurrent import LstmCell, LstmSteps, swap_rows_and_steps
from xmodels.models.carried import CarriedBackbone
from xmodels.models.config import LayersConfig


@dataclasses.dataclass(frozen=True)
class LstmLMConfig(LayersConfig):
    """Sizes of the network. Dropout is applied between layers, not between steps (section 3.1).

    Weights are initialized with uniform(-`initial_scale`, `initial_scale`).
    """

    retired: ClassVar[frozenset[str]] = frozenset({"num_heads", "intermediate_dim", "max_sequence_length"})
    initial_scale: float = 0.1


class Lstm(Layer):
    """An LSTM over all steps. The inputs of all steps are projected in one product, outside of the loop.

    Call arguments:
        x: (B, N, D).
        state: (B, 2, D), h and c before the first step.

    Returns:
        (B, N, D), and the state after the last step, (B, 2, D).
    """

    def __init__(self, config: LstmLMConfig, **kwargs):
        super().__init__(**kwargs)
        width = config.hidden_dim
        self.gates = keras.layers.Dense(
            4 * width, kernel_initializer=_uniform(config), bias_initializer=_uniform(config)
        )
        self.steps = LstmSteps(LstmCell(width, _uniform(config)), name="steps")

    def call(self, x, state):
        state = ops.cast(state, self.compute_dtype)
        x, cells = self.steps(self.gates(swap_rows_and_steps(x)), state[:, 0], state[:, 1])
        return swap_rows_and_steps(x), ops.stack([x[-1], cells[-1]], axis=1)


def _uniform(config: LstmLMConfig):
    return keras.initializers.RandomUniform(-config.initial_scale, config.initial_scale)


@keras.saving.register_keras_serializable("xmodels")
class LstmLM(CarriedBackbone):
    """A causal network that carries its state from segment to segment of a text.

    Call arguments:
        features: `token_ids` int (B, N); for a segment with a past also `memory` float32 (B, num_layers, 2, D), h and c of each
            layer.

    Returns:
        A dictionary of `sequence_output` (B, N, D) and, if `memory` is given, `memory` after the last token, without gradient.
    """

    config_class = LstmLMConfig

    def __init__(self, config: LstmLMConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = keras.layers.Embedding(config.vocabulary_size, config.hidden_dim, _uniform(config))
        self.recurrent_layers = [Lstm(config, name=f"layer_{i}") for i in range(config.num_layers)]
        self.dropout = Dropout(config.dropout)

    def initial_memory(self, batch_size: int, memory_length: int | None = None) -> dict:
        """Returns the feature `memory` for the beginning of texts. `memory_length` is ignored: a state has no length."""
        shape = (batch_size, self.config.num_layers, 2, self.config.hidden_dim)
        return {"memory": ops.zeros(shape, "float32")}

    def hidden_states(self, features, training=None):
        """Returns the input of each layer and the output of the last, num_layers + 1 tensors (B, N, D)."""
        states = [self.dropout(self.embedding(features["token_ids"]), training=training)]
        memory = self.initial_memory(ops.shape(features["token_ids"])[0])["memory"]
        for i, layer in enumerate(self.recurrent_layers):
            states.append(self.dropout(layer(states[-1], memory[:, i])[0], training=training))
        return states

    def run(self, token_ids, memory, training=False):
        x, states = self.dropout(self.embedding(token_ids), training=training), []  # (B, N, D)
        for i, layer in enumerate(self.recurrent_layers):
            x, state = layer(x, memory[:, i])
            x = self.dropout(x, training=training)
            states.append(state)
        return x, ops.cast(ops.stack(states, axis=1), "float32")


def _size(hidden_dim, dropout, initial_scale, num_layers=2):
    return {
        "num_layers": num_layers,
        "hidden_dim": hidden_dim,
        "dropout": dropout,
        "initial_scale": initial_scale,
    }


# Zaremba et al., section 4.1; small is the network without regularisation. tiny is ours.
SIZES = {
    "tiny": _size(64, 0.0, 0.1, 1),
    "small": _size(200, 0.0, 0.1),
    "base": _size(650, 0.5, 0.05),  # the paper's medium
    "large": _size(1500, 0.65, 0.04),
}
