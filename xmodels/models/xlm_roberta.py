"""XLM-R: Unsupervised Cross-lingual Representation Learning at Scale (Conneau et al., 2019, arXiv 1911.02116)."""

import dataclasses

import keras

from xmodels.models import roberta
from xmodels.models.roberta import Roberta, RobertaConfig


@dataclasses.dataclass(frozen=True)
class XlmRobertaConfig(RobertaConfig):
    """RoBERTa's configuration."""


@keras.saving.register_keras_serializable("xmodels")
class XlmRoberta(Roberta):
    """RoBERTa's network, with a vocabulary of a hundred languages (section 3)."""

    config_class = XlmRobertaConfig


# Those of RoBERTa; base and large: section 3 of the paper.
SIZES = dict(roberta.SIZES)
