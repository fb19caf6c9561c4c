"""A window of text scores higher than the same with another word in its middle (Collobert et al., 2011, section 4.2, equation 17)."""

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.objectives.base import Objective


class WordRanking(Objective):
    """The mean over words of max(0, 1 - f(x) + f(x with another word)), where f is linear in the hidden layer.

    One other word is drawn for each place and step.
    """

    reads = {"token_ids": Feature((None,))}
    needs = {"label_weights": Feature((None,), "float32"), "other_ids": Feature((None,))}
    accuracy = "ranking_accuracy"

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.head = keras.layers.Dense(1, use_bias=False, name="head")  # a bias would be the same in both scores
        self.head.build((None, config.hidden_dim))

    def score(self, outputs, batch, backbone):
        sums, weights = outputs["window_sums"], batch["label_weights"]
        others = backbone.replace_center(sums, batch["token_ids"], batch["other_ids"])
        own, other = (
            ops.cast(self.head(states)[..., 0], "float32") for states in (keras.activations.hard_tanh(sums), others)
        )  # (B, L)
        losses, right, count = ops.relu(1.0 - own + other), ops.cast(own > other, "float32"), ops.sum(weights)
        return (
            {"word_ranking": (ops.sum(losses * weights), count)},
            {"ranking_accuracy": (ops.sum(right * weights), count)},
        )
