"""A recurrent network over complex words, in both directions (Wang et al., 2020, ICLR, section 4)."""

import dataclasses

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.layers.complex_layers import ComplexCell, ComplexDense
from xmodels.layers.dropout import Dropout
from xmodels.layers.pooling import max_state
from xmodels.layers.recurrent import Bidirectional, Recurrent
from xmodels.models.backbone import Backbone
from xmodels.models.complex_fasttext import ComplexFastTextConfig, words_of
from xmodels.models.config import NOTHING


@dataclasses.dataclass(frozen=True)
class ComplexRnnConfig(ComplexFastTextConfig):
    """`hidden_dim` counts both parts of both directions, `embedding_dim` the complex numbers of a word. Words as in
    `ComplexFastTextConfig`."""

    embedding_dim: int = 300
    dropout: float = 0.3

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        self._check_table("hidden_dim", "hidden_dim", source, spelled)
        if self.hidden_dim % 4:
            raise CheckpointError(
                f"{source}: `hidden_dim` must be a multiple of 4, for real and imaginary parts of two directions. Found: "
                f"{self.hidden_dim}."
            )


@keras.saving.register_keras_serializable("xmodels")
class ComplexRnn(Backbone):
    """h = tanh(W h + U x + b) with complex products and a tanh of each part, in both directions.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), padded on the right.

    Returns:
        A dictionary of `sequence_output` (B, L, D), the parts of the forward states and those of the backward ones, zeros at padding,
        and `pooled_output` (B, D), the maximum over the real tokens in each dimension.
    """

    config_class = ComplexRnnConfig
    from_labels = True
    any_length = True

    def __init__(self, config: ComplexRnnConfig, **kwargs):
        super().__init__(config, **kwargs)
        units = config.hidden_dim // 4
        self.words = words_of(config, config.embedding_dim)
        self.directions = Bidirectional(self.direction(units), self.direction(units), name="directions")
        self.dropout = Dropout(config.dropout)

    def direction(self, units: int) -> Recurrent:
        """Returns one direction, of so many complex numbers."""
        return Recurrent(ComplexCell(units), gates=ComplexDense(units))

    def call(self, features, training=None):
        real = features["padding_mask"]
        x = self.dropout(self.words(features["token_ids"], real), training=training)
        states = self.directions(x, real)
        return {"sequence_output": states, "pooled_output": max_state(states, ops.cast(real, "bool"))}


# Both are ours.
SIZES = {
    "tiny": {"hidden_dim": 128, "embedding_dim": 32, "dropout": 0.1},
    "base": {"hidden_dim": 512, "embedding_dim": 300},
}
