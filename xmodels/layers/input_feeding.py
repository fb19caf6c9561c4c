"""A decoder of LSTMs with attention, which reads the attentional state of a step in the next one (Luong et al., 2015, section 3.3)."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.recurrent import LstmCell

HIDDEN = -1e9  # the score of padding


class InputFeedingCell(keras.layers.Layer):
    """One step: two or more LSTMs over [word; h~], attention to the source by h W_1 H, and h~ = tanh(W_2 [context; h]).

    Args:
        hidden_dim: D, the width of the LSTMs, of the source and of h~.
        num_layers: LSTMs.
        initializer: of all kernels.

    Call arguments:
        words: (B, 4 * D), the word of the step, projected to the gates of the first LSTM.
        states: h~ (B, D); h and c of each LSTM, (B, D) each; and the source, which does not change: its states (B, S, D), their
            keys (B, S, D), and 0 or `HIDDEN` (B, S), which is added to scores.

    Returns:
        h~ (B, D), and the new states.
    """

    def __init__(self, hidden_dim: int, num_layers: int, initializer, **kwargs):
        super().__init__(**kwargs)
        self.output_size, self.num_layers = hidden_dim, num_layers
        self.state_size = [hidden_dim] * (1 + 2 * num_layers) + [hidden_dim, hidden_dim, 1]
        self.cells = [LstmCell(hidden_dim, initializer(), name=f"cell_{i}") for i in range(num_layers)]
        make = keras.layers.Dense
        self.fed = make(4 * hidden_dim, use_bias=False, kernel_initializer=initializer(), name="fed")
        self.gates = [
            make(
                4 * hidden_dim,
                kernel_initializer=initializer(),
                bias_initializer=cell.bias_initializer,
                name=f"gates_{i}",
            )
            for i, cell in enumerate(self.cells[1:])
        ]
        self.join = make(hidden_dim, "tanh", use_bias=False, kernel_initializer=initializer(), name="join")  # W_2

    def build(self, shape):
        width = self.output_size
        for cell in self.cells:
            cell.build((None, 4 * width))
        for layer in (self.fed, *self.gates):
            layer.build((None, width))
        self.join.build((None, 2 * width))
        self.built = True

    def call(self, words, states, training=None):
        before, *inner, source, keys, bias = states
        pairs = list(zip(inner[::2], inner[1::2], strict=True))
        h, following = self.cells[0](words + self.fed(before), pairs[0])
        for cell, gates, pair in zip(self.cells[1:], self.gates, pairs[1:], strict=True):
            h, state = cell(gates(h), pair)
            following = following + state
        scores = ops.cast(ops.einsum("bd,bsd->bs", h, keys), "float32") + ops.cast(bias, "float32")
        context = ops.einsum("bs,bsd->bd", ops.cast(ops.softmax(scores, axis=-1), source.dtype), source)
        found = self.join(ops.concatenate([context, h], axis=-1))
        return found, [found, *following, source, keys, bias]


class InputFeedingDecoder(Layer):
    """An `InputFeedingCell` over the words of a target.

    Args:
        vocabulary_size: V of the target.
        embedding_dim: the width of its words.
        hidden_dim, num_layers, initializer: of `InputFeedingCell`.
        dropout: of words and of what leaves.

    Call arguments:
        target_ids: int (B, T), the words before those that are predicted.
        source: (B, S, D), the states of the source.
        padding_mask: bool (B, S), True on real tokens of it.
        last: (B, 2 * num_layers, D), h and c of each layer behind the source.

    Returns:
        h~ of each step, (B, T, D).
    """

    def __init__(
        self, vocabulary_size, embedding_dim, hidden_dim, num_layers, initializer, dropout: float = 0.0, **kwargs
    ):
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        self.words = keras.layers.Embedding(vocabulary_size, embedding_dim, initializer(), name="words")
        self.key = keras.layers.Dense(hidden_dim, use_bias=False, kernel_initializer=initializer(), name="key")  # W_1
        self.gates = keras.layers.Dense(4 * hidden_dim, kernel_initializer=initializer(), name="gates")
        cell = InputFeedingCell(hidden_dim, num_layers, initializer, name="cell")
        self.steps = keras.layers.RNN(cell, return_sequences=True, name="steps")
        self.dropout = Dropout(dropout)

    def call(self, target_ids, source, padding_mask, last, training=None):
        words = self.gates(self.dropout(self.words(target_ids), training=training))  # (B, T, 4 D)
        bias = ops.where(ops.cast(padding_mask, "bool"), 0.0, HIDDEN)  # (B, S)
        before = [last[:, i] for i in range(last.shape[1])]
        begin = ops.zeros((ops.shape(source)[0], self.hidden_dim), source.dtype)
        states = self.steps(words, initial_state=[begin, *before, source, self.key(source), bias])
        return self.dropout(states, training=training)
