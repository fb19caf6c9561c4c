"""Causal language modelling whose output layer is the token embedding and a bias (Press and Wolf, 2017)."""

import keras

from xmodels.layers.heads import tied_logits
from xmodels.objectives.causal_lm import CausalLM


class TiedLM(CausalLM):
    """`CausalLM` with a bias for each token, for networks whose `embedding` is the table itself."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.bias = self.add_weight(shape=(config.vocabulary_size,), initializer="zeros", name="bias", autocast=False)

    def logits(self, states, backbone):
        return tied_logits(states, backbone.embedding) + keras.ops.convert_to_tensor(self.bias)
