"""GPT's way: `_start_ A _delimiter_ B _classify_`, and the last state at `_classify_` (Radford et al., 2018, section 3.3)."""

import keras
from keras import ops

from data_pipelines.text.frames import EXTRACT, GPT, GPT_TOKENS

NUMBERS = {  # section 4.1, and the code of the authors
    "learning_rate": 6.25e-5,
    "warmup_proportion": 0.002,
    "optimizer": "adamw",
    "adam_epsilon": 1e-8,
    "lr_schedule": "gpt_linear",
    "auxiliary_lm_weight": 0.5,
}


class Reading:
    """What a task needs to know of a causal network. Its methods are those of `pooled.Reading`.

    Args:
        vocabulary: of the network, with GPT_TOKENS.
    """

    frame = GPT
    tokens = GPT_TOKENS
    asks_first = True
    numbers = NUMBERS

    def __init__(self, vocabulary):
        self.extract_id = vocabulary[EXTRACT]

    def initializer(self, config):
        return keras.initializers.RandomNormal(stddev=config.initializer_stddev)

    def summary(self, outputs, batch):
        """The state at the one extract token, (B, D), of `sequence_output` (B, L, D) and `token_ids` (B, L)."""
        here = ops.cast(ops.equal(batch["token_ids"], self.extract_id), "int32")
        place = ops.reshape(ops.argmax(here, axis=-1), (-1, 1, 1))  # (B, 1, 1)
        return ops.squeeze(ops.take_along_axis(outputs["sequence_output"], place, axis=1), 1)
