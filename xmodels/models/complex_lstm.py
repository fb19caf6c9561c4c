"""An LSTM over complex words, in both directions (Wang et al., 2020, ICLR, section 4)."""

import dataclasses

import keras

from xmodels.layers.complex_layers import BothForget, ComplexDense, ComplexLstmCell
from xmodels.layers.recurrent import Recurrent
from xmodels.models import complex_rnn
from xmodels.models.complex_rnn import ComplexRnn, ComplexRnnConfig


@dataclasses.dataclass(frozen=True)
class ComplexLstmConfig(ComplexRnnConfig):
    """Sizes as in `ComplexRnnConfig`."""


@keras.saving.register_keras_serializable("xmodels")
class ComplexLstm(ComplexRnn):
    """A `ComplexRnn` with the cell of an LSTM: complex products, and gates of each part."""

    config_class = ComplexLstmConfig

    def direction(self, units: int) -> Recurrent:
        return Recurrent(ComplexLstmCell(units), gates=ComplexDense(4 * units, bias_initializer=BothForget()))


SIZES = complex_rnn.SIZES
