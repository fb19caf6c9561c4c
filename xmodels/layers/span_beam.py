"""A head that predicts the end of an answer given its start, and whether there is an answer (Yang et al., 2019, and its code)."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.norms import LayerNorm

NEVER = -1e30  # the logit of positions where no answer may start or end


class SpanBeamHead(keras.layers.Layer):
    """Logits of the start of an answer, of its end given a start, and of having no answer.

    Args:
        hidden_dim: D, the width of the states.
        dropout: before the last layer of the no-answer logit.
        epsilon: of the layer normalization.
        make_initializer: makes the initializer of a kernel; called for each kernel.
    """

    def __init__(self, hidden_dim: int, dropout: float, epsilon: float, make_initializer, **kwargs):
        super().__init__(**kwargs)

        def dense(outputs, name, **more):
            return keras.layers.Dense(outputs, kernel_initializer=make_initializer(), name=name, **more)

        self.hidden_dim = hidden_dim
        self.start = dense(1, "start")
        self.end_hidden, self.end = dense(hidden_dim, "end_hidden"), dense(1, "end")
        self.end_norm = LayerNorm(epsilon=epsilon, name="end_norm")
        self.null_hidden = dense(hidden_dim, "null_hidden", activation="tanh")
        self.null = dense(1, "null", use_bias=False)
        self.dropout = Dropout(dropout)

    def build(self, states_shape=None):
        for layer, width in (
            (self.start, 1),
            (self.end_hidden, 2),
            (self.end, 1),
            (self.null_hidden, 2),
            (self.null, 1),
        ):
            layer.build((None, width * self.hidden_dim))
        self.end_norm.build((None, self.hidden_dim))
        self.built = True

    def starts(self, states, allowed):
        """Returns the logits of the start, float32 (B, L), `NEVER` where `allowed`, bool (B, L), is False."""
        return ops.where(allowed, ops.cast(self.start(states)[..., 0], "float32"), NEVER)

    def ends(self, states, beginnings, allowed):
        """Returns the logits of the end for each start, float32 (B, K, L); `beginnings` (B, K, D) are the states of the starts."""
        # A Dense layer on the concatenation of both states, for all pairs: each half of its kernel is multiplied once per state.
        kernel = ops.cast(self.end_hidden.kernel, states.dtype)
        of_states = ops.matmul(states, kernel[: self.hidden_dim])  # (B, L, D)
        of_beginnings = ops.matmul(beginnings, kernel[self.hidden_dim :]) + ops.cast(self.end_hidden.bias, states.dtype)
        hidden = ops.tanh(ops.expand_dims(of_states, 1) + ops.expand_dims(of_beginnings, 2))  # (B, K, L, D)
        logits = ops.cast(self.end(self.end_norm(hidden))[..., 0], "float32")
        return ops.where(ops.expand_dims(allowed, 1), logits, NEVER)

    def nothing(self, states, start_logits, null_state, training=None):
        """Returns the logit of having no answer, float32 (B,).

        Args:
            states: (B, L, D), averaged with the probabilities of the starts.
            start_logits: (B, L), from `starts`.
            null_state: (B, D), the state of the whole text.
        """
        weights = ops.cast(ops.softmax(start_logits, axis=-1), states.dtype)
        summary = ops.einsum("bl,bld->bd", weights, states)
        hidden = self.null_hidden(ops.concatenate([summary, null_state], axis=-1))
        return ops.cast(self.null(self.dropout(hidden, training=training))[..., 0], "float32")
