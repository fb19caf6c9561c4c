"""Layers over complex numbers (Wang et al., 2020, ICLR, section 4; Trabelsi et al., 2018). A complex tensor of D numbers has the real
parts and, behind them, the imaginary parts: (..., 2 D)."""

import keras
from keras import ops

from xmodels.layers.attention.core import HIDDEN
from xmodels.layers.convolution import TokenWindows, windows
from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.layers.recurrent import OneForget


class ComplexDense(Layer):
    """y = W x + b over complex numbers: Re y = A Re x - B Im x, Im y = A Im x + B Re x for W = A + iB, each with a bias.

    A and B are normal, so that the modulus of a weight has Rayleigh's distribution and its angle any value.

    Args:
        units: M.
        activation: applied to real and imaginary parts, by its name in Keras.
        use_bias: whether there is b.
        bias_initializer: of b, (2 M,).

    Call arguments:
        x: (..., 2 N).

    Returns:
        (..., 2 M)
    """

    def __init__(self, units: int, activation=None, use_bias: bool = True, bias_initializer="zeros", **kwargs):
        super().__init__(**kwargs)
        self.units, self.activation = units, keras.activations.get(activation)
        self.use_bias, self.bias_initializer = use_bias, bias_initializer

    def build(self, input_shape):
        width = input_shape[-1] // 2
        make = keras.initializers.RandomNormal(stddev=(width + self.units) ** -0.5)
        shape = (2, width, self.units)  # A and B
        self.kernel = self.add_weight(name="complex_kernel", shape=shape, initializer=make)
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(2 * self.units,), initializer=self.bias_initializer)
        self.built = True

    def call(self, x):
        real, imaginary = ops.split(x, 2, axis=-1)
        both = ops.concatenate([self.kernel[0], self.kernel[1]], axis=1)  # (N, 2 M)
        turned = ops.concatenate([-self.kernel[1], self.kernel[0]], axis=1)
        y = ops.matmul(real, both) + ops.matmul(imaginary, turned)
        return self.activation(y + self.bias if self.use_bias else y)


class ComplexTokenWindows(TokenWindows):
    """`TokenWindows` over complex numbers: a ReLU and a maximum of each part. Arguments and results are twice as wide."""

    def __init__(self, num_filters: int, kernel_size: int, **kwargs):
        begin = keras.initializers.Constant(0.1)  # the authors'
        super().__init__(num_filters, kernel_size, ComplexDense(num_filters, "relu", bias_initializer=begin), **kwargs)

    def seen(self, x, before, after):
        parts = ops.split(x, 2, axis=-1)
        return ops.concatenate([windows(part, self.kernel_size, before, after) for part in parts], axis=-1)


class ComplexCell(keras.layers.Layer):
    """One step of h = tanh(W h + gates), of each part.

    Call arguments:
        gates: (B, 2 D), the projected inputs.
        states: a list of h, (B, 2 D).

    Returns:
        h, and [h].
    """

    num_gates = 1

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.state_size = self.output_size = 2 * units
        self.recurrent = ComplexDense(units, use_bias=False)

    def build(self, shape):
        self.recurrent.build((None, self.output_size))
        self.built = True

    def call(self, gates, states, training=None):
        h = ops.tanh(gates + self.recurrent(states[0]))
        return h, [h]


class BothForget(OneForget):
    """The bias of four gates of complex numbers (8 * D,): zeros, with ones for both parts of the forget gate."""

    def __call__(self, shape, dtype=None):
        part = super().__call__((shape[0] // 2,), dtype)
        return ops.concatenate([part, part])


class ComplexLstmCell(keras.layers.Layer):
    """One step of an LSTM over complex numbers: products with matrices are complex; sigmoids, tanhs and gates act on each part.

    The gates are in the order of `LstmCell`: input, forget, candidate, output.

    Call arguments:
        gates: (B, 8 * D), the projected inputs, the real parts of all gates first.
        states: h and c, (B, 2 * D) each.

    Returns:
        h (B, 2 * D), and [h, c].
    """

    num_gates = 4

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.state_size, self.output_size = [2 * units, 2 * units], 2 * units
        self.recurrent = ComplexDense(4 * units, use_bias=False)

    def build(self, shape):
        self.recurrent.build((None, self.output_size))
        self.built = True

    def call(self, gates, states, training=None):
        h, c = states
        parts = (ops.split(part, 4, axis=-1) for part in ops.split(gates + self.recurrent(h), 2, axis=-1))
        i, f, candidate, o = (ops.concatenate(both, axis=-1) for both in zip(*parts, strict=True))  # (B, 2 D) each
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(candidate)
        h = ops.sigmoid(o) * ops.tanh(c)
        return h, [h, c]


class ComplexNorm(Layer):
    """Layer norm of the real and of the imaginary parts, each with weights of its own."""

    def __init__(self, epsilon: float = 1e-6, **kwargs):
        super().__init__(**kwargs)
        self.real = LayerNorm(epsilon=epsilon, name="real")
        self.imaginary = LayerNorm(epsilon=epsilon, name="imaginary")

    def call(self, x):
        real, imaginary = ops.split(x, 2, axis=-1)
        return ops.concatenate([self.real(real), self.imaginary(imaginary)], axis=-1)


class ComplexFeedForward(Layer):
    """Two `ComplexDense`, with a ReLU of each part between them."""

    def __init__(self, hidden_units: int, units: int, **kwargs):
        super().__init__(**kwargs)
        self.expand = ComplexDense(hidden_units, "relu", name="expand")
        self.contract = ComplexDense(units, name="contract")

    def call(self, x, training=None):
        return self.contract(self.expand(x))


class ComplexAttention(Layer):
    """Attention of complex queries to complex keys: softmax(|q k| / sqrt(K)), with the products of the paper, q k, or Hermitian ones.

    Args:
        num_heads: H.
        units: D = H K, complex numbers of a state.
        conjugate_keys: whether keys are conjugated. Then scores depend on differences of phases, so on distances; else on sums.
        dropout: of probabilities.

    Call arguments:
        x: (B, L, 2 D).
        visible: a `Visible`, of which padding is used.

    Returns:
        (B, L, 2 D)
    """

    def __init__(self, num_heads: int, units: int, conjugate_keys: bool = False, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.num_heads, self.conjugate_keys = num_heads, conjugate_keys
        self.query, self.key, self.value, self.merge = (
            ComplexDense(units, name=name) for name in ("query", "key", "value", "merge")
        )
        self.dropout = Dropout(dropout)

    def call(self, x, visible=None, training=None):
        shares = self.dropout(ops.cast(self.probabilities(x, visible), x.dtype), training=training)
        parts = (ops.einsum("bhqk,bkhd->bqhd", shares, part) for part in self.heads(self.value(x)))
        return self.merge(ops.concatenate([_flat(part) for part in parts], axis=-1))

    def probabilities(self, x, visible=None):
        """Returns the attention probabilities, float32 (B, H, L, L)."""
        scores = self.scores(*self.heads(self.query(x)), *self.heads(self.key(x)))
        if visible is not None:
            padding = 1.0 - ops.cast(visible.padding, "float32")[:, None, None]
            scores = scores + padding * HIDDEN
        return ops.softmax(scores, axis=-1)

    def scores(self, query_real, query_imaginary, key_real, key_imaginary):
        """Returns |q k| / sqrt(K) of all queries and keys, (B, L, H, K) each: float32 (B, H, L, L)."""

        def product(query, key):
            return ops.cast(ops.einsum("bqhd,bkhd->bhqk", query, key), "float32")

        sign = -1.0 if self.conjugate_keys else 1.0
        real = product(query_real, key_real) - sign * product(query_imaginary, key_imaginary)
        imaginary = product(query_imaginary, key_real) + sign * product(query_real, key_imaginary)
        scale = query_real.shape[-1] ** -0.5
        return ops.sqrt(ops.square(real) + ops.square(imaginary) + 1e-12) * scale  # whose gradient at 0 is finite

    def heads(self, x):
        """Returns the real and the imaginary parts of heads: (B, L, 2 D) -> twice (B, L, H, K)."""
        batch, length = ops.shape(x)[:2]
        shape = (batch, length, self.num_heads, x.shape[-1] // (2 * self.num_heads))
        return [ops.reshape(part, shape) for part in ops.split(x, 2, axis=-1)]


def _flat(x):
    """Returns (B, L, H, K) -> (B, L, H K)"""
    batch, length, heads, width = ops.shape(x)
    return ops.reshape(x, (batch, length, heads * width))
