"""Translation by a decoder that only the training has (McCann et al., 2017, section 3)."""

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.initialization import uniform
from xmodels.layers.input_feeding import InputFeedingDecoder
from xmodels.objectives.seq2seq import Seq2Seq


class Translation(Seq2Seq):
    """Cross-entropy of the words of a target, which a decoder with attention and input feeding predicts. The network gives
    `encoder_output` and `encoder_states`, with which the decoder begins.

    Args:
        config: of the network, with the widths `embedding_dim` and `encoder_dim`, and `initial_scale`.
    """

    needs = {**Seq2Seq.needs, "target_ids": Feature((None,))}

    def __init__(self, config, **kwargs):
        super().__init__(0.0, **kwargs)
        make = uniform(config.initial_scale)
        sizes = config.vocabulary_size, config.embedding_dim, config.encoder_dim, config.num_layers
        self.decoder = InputFeedingDecoder(*sizes, make, config.dropout, name="decoder")
        self.words = keras.layers.Dense(config.vocabulary_size, kernel_initializer=make(), name="words")

    def forward(self, backbone, batch, training=None):
        source = {name: batch[name] for name in ("token_ids", "padding_mask")}
        outputs = backbone(source, training=training)
        states = self.decoder(
            batch["target_ids"], outputs["encoder_output"], batch["padding_mask"], outputs["encoder_states"], training=training
        )  # fmt: skip
        return {"sequence_output": states}

    def logits(self, states, backbone):
        return ops.cast(self.words(states), "float32")
