"""MASS: Masked Sequence to Sequence Pre-training (Song et al., 2019, arXiv 1905.02450), as in its code for summarization."""

import dataclasses
from typing import ClassVar

import keras

from data_pipelines.features import Feature
from xmodels.layers.attention.visible import Visible
from xmodels.models.bart import BartConfig, LearnedPositionTransformer
from xmodels.models.config import LARGEST
from xmodels.models.transformer import size
from xmodels.models.transformer_parts import BERT_LIKE


@dataclasses.dataclass(frozen=True)
class MassConfig(BartConfig):
    """Fields as in `BartConfig`. By default positions start at row 0 of tables of 512 rows."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"first_position": (0, LARGEST)}
    max_sequence_length: int = 512
    first_position: int = 0
    attention_dropout: float = 0.1


@keras.saving.register_keras_serializable("xmodels")
class Mass(LearnedPositionTransformer):
    """A `LearnedPositionTransformer` in which masked tokens can be excluded from attention.

    Call arguments:
        features: as in `Transformer`; optionally `encoder_mask` and `cross_mask`, bool (B, S), True on the tokens of the source
            that the encoder and the decoder may attend to. By default all real ones.
    """

    config_class = MassConfig
    begins_as = BERT_LIKE
    may_read = {
        **LearnedPositionTransformer.may_read,
        "encoder_mask": Feature((None,), "bool"),
        "cross_mask": Feature((None,), "bool"),
    }

    def encode(self, features, visible=None, training=None):
        if visible is None and "encoder_mask" in features:
            visible = Visible(features["encoder_mask"])
        return super().encode(features, visible, training)

    def source_visible(self, features):
        return Visible(features["cross_mask"] if "cross_mask" in features else features["padding_mask"])


# tiny and mini: for trials. base and middle: the code for summarization. nmt: section 4.1.
SIZES = {
    "tiny": size(2, 128, 4, 512),
    "mini": size(4, 256, 4, 1024),
    "base": size(6, 768, 12, 3072),
    "middle": size(6, 1024, 16, 4096),
    "nmt": size(6, 1024, 8, 4096),
}
