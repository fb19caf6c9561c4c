"""Replaced token detection with the head of DeBERTa version 3 (He et al., 2021, arXiv 2111.09543, and the released code)."""

import keras
from keras import ops

from xmodels.layers.activations import activation
from xmodels.layers.initialization import gpt
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.objectives.replaced_tokens import ReplacedTokens, ReplacedTokensHead


class ContextHead(Layer):
    """Says of each token whether it was replaced, from its state and that of the first token: LayerNorm of their sum, Dense,
    activation, Dense: (B, L, D) -> float32 logits (B, L)."""

    prefix = ReplacedTokensHead.prefix

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)

        def dense(width, name):
            return keras.layers.Dense(width, kernel_initializer=gpt(config.initializer_stddev).inner(), name=name)

        self.norm = LayerNorm(epsilon=config.layer_norm_epsilon, name="norm")
        self.dense, self.prediction = dense(config.hidden_dim, "dense"), dense(1, "prediction")
        self.activation = activation(config.activation)

    def call(self, x):
        x = self.activation(self.dense(self.norm(x[:, :1] + x)))
        return ops.cast(self.prediction(x)[..., 0], "float32")


class ReplacedTokensInContext(ReplacedTokens):
    """A `ReplacedTokens` with a `ContextHead`; arguments as there."""

    label = "replaced_tokens"
    head_class = ContextHead
