"""An LSTM whose states are joined by attention: the layers on top of a language model that classify (Chronopoulou et al., 2019)."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.recurrent import LstmCell, Recurrent

HIDDEN = -1e9  # the score of padding


class AttentiveLstm(Layer):
    """Reads the states of another network from left to right, and returns the mean of its own, weighted by attention.

    The score of a state s is tanh(w . s + b), with dropout. Initial weights are those of `Recurrent`: Glorot's for inputs, orthogonal
    between steps, and a bias of 1 for the forget gate.

    Args:
        hidden_dim: A.
        dropout: of the scores.

    Call arguments:
        states: (B, L, D).
        padding_mask: bool (B, L), True on real tokens; padding is on the right.

    Returns:
        (B, A)
    """

    def __init__(self, hidden_dim: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.lstm = Recurrent(LstmCell(hidden_dim), name="lstm")
        self.score = keras.layers.Dense(1, "tanh", name="score")
        self.dropout = Dropout(dropout)

    def call(self, states, padding_mask, training=None):
        states = self.lstm(states)  # (B, L, A)
        shares = ops.cast(self.shares(states, padding_mask, training), states.dtype)
        return ops.einsum("bl,bla->ba", shares, states)

    def shares(self, states, padding_mask, training=None):
        """Returns what each state of the LSTM counts, float32 (B, L): 0 on padding, and 1 in sum."""
        scores = self.dropout(self.score(states), training=training)[:, :, 0]  # (B, L)
        real = ops.cast(padding_mask, "bool")
        return ops.softmax(ops.where(real, ops.cast(scores, "float32"), HIDDEN), axis=-1)
