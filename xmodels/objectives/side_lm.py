"""The losses of two language models beside that of the encoder-decoder that began as them (Ramachandran et al., 2017)."""

from typing import ClassVar

import keras
from keras import ops

from xmodels.objectives.causal_lm import CausalLM


class SideLM(CausalLM):
    """Base class: predicts each token of plain text from those before it, by the language model that is part of the network.

    The backbone has `language_model(part, token_ids, training)`, which gives its states. Each row begins with an empty state.

    Args:
        weight: the loss is multiplied by it; 1 in the paper.
    """

    part: ClassVar[str]

    def __init__(self, weight: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.weight = weight

    def forward(self, backbone, batch, training=None):
        return {"sequence_output": backbone.language_model(self.part, batch["token_ids"], training=training)}

    def score(self, outputs, batch, backbone):
        losses, metrics = super().score(outputs, batch, backbone)
        total, count = losses["causal_lm"]
        return {self.label: (self.weight * total, count)}, {
            f"{self.label}_negative_log_likelihood": (total, count),
            f"{self.label}_accuracy": metrics["causal_lm_accuracy"],
        }


class SourceLM(SideLM):
    """The language model of the encoder. It has a softmax of its own, which nothing else reads."""

    part, accuracy = "encoder", "source_lm_accuracy"

    def __init__(self, config, weight: float = 1.0, **kwargs):
        super().__init__(weight, **kwargs)
        scale = config.initial_scale
        self.head = keras.layers.Dense(
            config.vocabulary_size, kernel_initializer=keras.initializers.RandomUniform(-scale, scale), name="head"
        )
        self.head.build((None, config.hidden_dim))

    def logits(self, states, backbone):
        return ops.cast(self.head(states), "float32")


class TargetLM(SideLM):
    """The language model of the decoder. Its softmax is that of the decoder."""

    part, accuracy = "decoder", "target_lm_accuracy"

    def logits(self, states, backbone):
        return backbone.logits(states)
