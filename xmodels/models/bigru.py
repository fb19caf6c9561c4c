"""A bidirectional GRU encoder (Cho et al., 2014, arXiv 1406.1078): `bilstm` with GRU cells."""

import dataclasses

import keras

from xmodels.layers.recurrent import GruCell, Recurrent
from xmodels.models.bilstm import SIZES as OF_BILSTM
from xmodels.models.bilstm import BiLstm, BiLstmConfig


@dataclasses.dataclass(frozen=True)
class BiGruConfig(BiLstmConfig):
    """`reset_after` as in `GruCell`; False in the paper."""

    reset_after: bool = False


@keras.saving.register_keras_serializable("xmodels")
class BiGru(BiLstm):
    config_class = BiGruConfig

    def make_direction(self, config):
        return Recurrent(GruCell(config.hidden_dim // 2, config.reset_after))


SIZES = OF_BILSTM
