"""fastText's classifier over complex words, whose mean knows their order (Wang et al., 2020, ICLR, section 4)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.complex_words import SHARING, ComplexWords
from xmodels.layers.pooling import mean_state
from xmodels.models.backbone import Backbone
from xmodels.models.config import TokenConfig


@dataclasses.dataclass(frozen=True)
class ComplexFastTextConfig(TokenConfig):
    """Words of `hidden_dim` complex numbers. `frequency_sharing` and `learned_phase` are those of `layers.complex_words`: "none",
    "word", "dimension", or "zero" for words without order. `dropout` is that of the head. Texts may have any length."""

    choices: ClassVar[dict[str, tuple[str, ...]]] = {**TokenConfig.choices, "frequency_sharing": SHARING}
    frequency_sharing: str = "none"
    learned_phase: bool = False
    dropout: float = 0.1


def words_of(config, channels: int) -> ComplexWords:
    """Returns the words of a network, of so many complex numbers each."""
    return ComplexWords(config.vocabulary_size, channels, config.frequency_sharing, config.learned_phase, name="words")


@keras.saving.register_keras_serializable("xmodels")
class ComplexFastText(Backbone):
    """The mean over words of the sums of their real and imaginary parts.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L).

    Returns:
        A dictionary of `sequence_output` (B, L, D), zeros at padding, and `pooled_output` (B, D).
    """

    config_class = ComplexFastTextConfig
    from_labels = True
    any_length = True

    def __init__(self, config: ComplexFastTextConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.words = words_of(config, config.hidden_dim)

    def call(self, features, training=None):
        real = ops.cast(features["padding_mask"], "bool")
        states = sum(ops.split(self.words(features["token_ids"], real), 2, axis=-1))
        return {"sequence_output": states, "pooled_output": mean_state(states, real)}


# All are ours; the paper's words are as wide as published vectors, 300.
SIZES = {"tiny": {"hidden_dim": 64}, "base": {"hidden_dim": 300}}
