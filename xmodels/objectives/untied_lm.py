"""Causal language modelling with an output matrix of its own (Zaremba et al., 2014)."""

import keras
from keras import ops

from xmodels.objectives.causal_lm import CausalLM


class UntiedLM(CausalLM):
    """`CausalLM` whose output layer has a matrix and a bias of its own instead of the token embedding."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        scale = config.initial_scale
        self.head = keras.layers.Dense(
            config.vocabulary_size, kernel_initializer=keras.initializers.RandomUniform(-scale, scale), name="head"
        )
        self.head.build((None, config.hidden_dim))

    def logits(self, states, backbone):
        return ops.cast(self.head(states), "float32")
