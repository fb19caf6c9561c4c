"""The layers of Convolutional Sequence to Sequence Learning (Gehring et al., 2017, arXiv 1705.03122), as in fairseq's `fconv`."""

from keras import ops

from xmodels.layers.convolution import next_inputs, windows
from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.weight_norm import WeightNormDense

HALF = 0.5**0.5  # a sum of two keeps the variance of each


class GatedWindow(Layer):
    """A convolution with a gated linear unit and weight normalisation (section 3.2): (B, L, C) -> (B, L, F).

    Args:
        inputs, filters: C and F.
        width: positions in a window.
        is_causal: whether a window ends at the position itself; otherwise it is centred on it. Beyond the ends there are zeros.
        dropout: rate on the inputs, for which the initial weights account (appendix A.3).
    """

    def __init__(self, inputs: int, filters: int, width: int, is_causal: bool, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.width, self.before = width, width - 1 if is_causal else (width - 1) // 2
        stddev = (4.0 * (1.0 - dropout) / (width * inputs)) ** 0.5
        self.convolution = WeightNormDense(2 * filters, stddev, name="convolution")

    def call(self, x):
        return self.inside(windows(x, self.width, self.before, self.width - 1 - self.before))

    def inside(self, seen):
        """Returns the gated outputs of windows: (B, L, width * C) -> (B, L, F)."""
        a, b = ops.split(self.convolution(seen), 2, axis=-1)
        return a * ops.sigmoid(b)

    def step(self, x, past, position):
        """Convolves the next positions of a text, if causal: (B, L, F), and `past`; arguments as in `next_inputs`."""
        around, past = next_inputs(x, past, position, self.width)
        return self.inside(windows(around, self.width, 0, 0)), past


class ConvolutionBlock(Layer):
    """y = (x + convolution(x)) * sqrt(1/2), with a projection of the first x where the widths differ.

    Args:
        inputs, filters: the widths C and F of x and y.
        width: positions in a window.
        dropout: rate on the inputs of the convolution.

    Call arguments:
        x: (B, L, C).
        real: (B, L, 1), 1 on real tokens; padding enters the convolution as zeros.

    Returns:
        (B, L, F)
    """

    is_causal = False

    def __init__(self, inputs: int, filters: int, width: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.inputs = inputs
        self.residual = linear(inputs, filters, name="residual") if inputs != filters else None
        self.gated = GatedWindow(inputs, filters, width, self.is_causal, dropout, name="gated")
        self.dropout = Dropout(dropout)

    def call(self, x, real, training=None):
        return (self.shortcut(x) + self.gated(self.dropout(x * real, training=training))) * HALF

    def shortcut(self, x):
        return x if self.residual is None else self.residual(x)


class AttentiveConvolutionBlock(ConvolutionBlock):
    """A causal `ConvolutionBlock` whose convolution looks at the source before it is added (section 3.3).

    d = (W h + b + g) * sqrt(1/2), with the embedding g of the previous target token; a = softmax(d . z); the mean of z + e by a, times
    the square root of the number of source tokens (section 3.5), is projected and added to h.

    Args:
        embedding_dim: E, the width of g, z and e. Others as in `ConvolutionBlock`.

    Call arguments:
        x: (B, T, C).
        words: g, (B, T, E).
        source: z and (z + e) * sqrt(1/2), (B, S, E) each, the bias float32 (B, S) and the square root of the number of tokens (B,).

    Returns:
        (B, T, F), and the attention weights, float32 (B, T, S).
    """

    is_causal = True

    def __init__(self, inputs: int, filters: int, width: int, dropout: float, embedding_dim: int, **kwargs):
        super().__init__(inputs, filters, width, dropout, **kwargs)
        self.query = linear(filters, embedding_dim, name="query")
        self.output_projection = linear(embedding_dim, filters, name="output_projection")

    def call(self, x, words, source, training=None):
        return self.finish(x, self.gated(self.dropout(x, training=training)), words, source)

    def finish(self, x, h, words, source):
        """Returns what a block does with the outputs h of its convolution, as `call`."""
        keys, values, bias, root = source
        query = (self.query(h) + words) * HALF
        scores = ops.cast(ops.einsum("bte,bse->bts", query, keys), "float32") + ops.expand_dims(
            ops.cast(bias, "float32"), 1
        )
        shares = ops.softmax(scores, axis=-1)  # (B, T, S)
        found = ops.einsum("bts,bse->bte", ops.cast(shares, values.dtype), values)
        found = found * ops.cast(ops.reshape(root, (-1, 1, 1)), found.dtype)
        h = (self.output_projection(found) + h) * HALF
        return (self.shortcut(x) + h) * HALF, shares

    def start(self, batch, length: int):
        """Returns the initial `past` of `step`, for targets of at most `length` tokens."""
        return ops.zeros((batch, length + self.gated.width - 1, self.inputs), self.compute_dtype)

    def step(self, x, past, position, words, source):
        """Returns the outputs (B, L, F) of the next L positions from `position` on, and `past` updated with them."""
        h, past = self.gated.step(x, past, position)
        return self.finish(x, h, words, source)[0], past


def linear(inputs: int, units: int, dropout: float = 0.0, **kwargs) -> WeightNormDense:
    """Returns a projection that keeps the variance of inputs of which dropout leaves a share (appendix A.2)."""
    return WeightNormDense(units, ((1.0 - dropout) / inputs) ** 0.5, **kwargs)
