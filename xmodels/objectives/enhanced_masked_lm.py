"""Masked language modelling with the enhanced mask decoder (He et al., 2020, arXiv 2006.03654, section 3.2)."""

import keras

from xmodels.objectives.masked_lm import MaskedLM


class EnhancedMaskedLM(MaskedLM):
    """A `MaskedLM` whose states have passed the last block twice more, with absolute positions in the queries.

    The network itself has relative positions only; absolute ones are added where tokens are predicted. The head has the names of that
    of `MaskedLM`.

    Args:
        mask_decoder: such as `models.deberta_v2.EnhancedMaskDecoder`. Others as of `MaskedLM`.
    """

    label = "masked_lm"

    def __init__(self, config, mask_decoder: keras.layers.Layer, corrupt=None, initialization=None, **kwargs):
        super().__init__(config, corrupt, initialization, **kwargs)
        self.mask_decoder = mask_decoder

    def forward(self, backbone, batch, training=None):
        outputs = backbone(batch, training=training)
        decoded = self.mask_decoder(outputs["last_input"], block=backbone.blocks[-1], features=batch, training=training)
        return {**outputs, "decoded": decoded}

    def logits(self, outputs, batch, backbone):
        return super().logits({"sequence_output": outputs["decoded"]}, batch, backbone)
