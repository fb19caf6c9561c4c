"""Causal language modelling whose logits are computed for some tokens at a time (Kitaev et al., 2020, section 3)."""

import keras
from keras import ops

from xmodels.layers.rematerialization import recompute
from xmodels.layers.reversible import split_tokens
from xmodels.objectives.causal_lm import CausalLM
from xmodels.objectives.measures import score_classes


class ChunkedLM(CausalLM):
    """`CausalLM` whose output layer has a matrix and a bias of its own, and which never keeps the logits of all tokens in training.

    Args:
        config: has `output_dim`, the width of the states, `vocabulary_size`, `initializer_stddev` and `head_chunk_size`, the tokens
            whose logits are computed at once; 0 for all.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.chunk_size = config.head_chunk_size
        initializer = keras.initializers.RandomNormal(stddev=config.initializer_stddev)
        self.head = keras.layers.Dense(config.vocabulary_size, kernel_initializer=initializer, name="head")
        self.head.build((None, config.output_dim))

    def score(self, outputs, batch, backbone):
        parts = [
            split_tokens(each, self.chunk_size)
            for each in (outputs["sequence_output"], batch["labels"], batch["label_weights"])
        ]
        found = [self._score(*each, is_kept=len(parts[0]) == 1) for each in zip(*parts, strict=True)]
        sums = [sum(values) for values in zip(*found, strict=True)]
        return {"causal_lm": tuple(sums[:2])}, {"causal_lm_accuracy": tuple(sums[2:])}

    def _score(self, states, labels, weights, is_kept):
        """Returns the sum of losses, their weight, and the same of right predictions."""

        def score(states, labels, weights):
            loss, accuracy = score_classes(labels, self.logits(states, None), weights)
            return *loss, *accuracy

        return score(states, labels, weights) if is_kept else recompute(score, states, labels=labels, weights=weights)

    def logits(self, states, backbone):
        return ops.cast(self.head(states), "float32")
