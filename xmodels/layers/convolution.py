"""Convolutions over the tokens of a text, as products of one matrix with windows: kernels (width * D, F), as Keras' (width, D, F)."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer


def windows(x, width: int, before: int, after: int, dilation: int = 1):
    """(B, L, D) -> (B, L + before + after - (width - 1) * dilation, width * D): places side by side, `dilation` apart, with zeros
    beyond the ends. Convolutions of TensorFlow get the shape of an empty batch wrong; a product does not."""
    x = ops.pad(x, ((0, 0), (before, after), (0, 0)))
    count = ops.shape(x)[1] - (width - 1) * dilation
    return ops.concatenate([x[:, i * dilation : i * dilation + count] for i in range(width)], axis=-1)


class GatedConvolution(Layer):
    """A convolution with a gated linear unit and a residual (Gehring et al., 2017, arXiv 1705.03122, section 3.2).

    y = (x + a * sigmoid(b)) * sqrt(1/2), where [a, b] is the convolution of x.

    Args:
        kernel_size: places that a place sees.
        dropout: before the convolution; weights begin as large as makes up for it (appendix A).
        dilation: the distance of two of these places.
        is_causal: whether it sees its own place and what came before; else as far to the left as to the right. Beyond the ends
            there are zeros.

    Call arguments:
        x: (B, L, D).
        padding_mask: bool (B, L), True on real tokens; others enter as zeros.

    Returns:
        (B, L, D)
    """

    def __init__(
        self,
        hidden_dim: int,
        kernel_size: int,
        dropout: float = 0.0,
        dilation: int = 1,
        is_causal: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.kernel_size, self.dilation = kernel_size, dilation
        span = (kernel_size - 1) * dilation
        self.before = span if is_causal else span // 2
        self.after = span - self.before
        stddev = (4.0 * (1.0 - dropout) / (kernel_size * hidden_dim)) ** 0.5
        initializer = keras.initializers.RandomNormal(stddev=stddev)
        self.convolution = keras.layers.Dense(2 * hidden_dim, kernel_initializer=initializer, name="convolution")
        self.dropout = Dropout(dropout)

    def call(self, x, padding_mask=None, training=None):
        inside = self.dropout(x, training=training)
        if padding_mask is not None:
            inside = inside * ops.expand_dims(
                ops.cast(padding_mask, x.dtype), -1
            )  # padding is as what is beyond the end
        seen = windows(inside, self.kernel_size, self.before, self.after, self.dilation)  # (B, L, width D)
        a, b = ops.split(self.convolution(seen), 2, axis=-1)  # (B, L, D) each
        return (x + a * ops.sigmoid(b)) * 0.5**0.5


class TokenWindows(Layer):
    """A convolution with ReLU over windows of a text (Kim, 2014, arXiv 1408.5882, equations 2 to 4).

    Call arguments:
        x: (B, L, E), zeros at padding.
        padding_mask: bool (B, L), True on real tokens.

    Returns:
        (B, L, F), what the window around each token gives, which beyond the ends holds zeros; and (B, F), the largest number of
        the windows that lie inside of the text. Of a text that is shorter than a window there is one, filled up with zeros.
    """

    def __init__(self, num_filters: int, kernel_size: int, **kwargs):
        super().__init__(**kwargs)
        self.kernel_size = kernel_size
        self.convolution = keras.layers.Dense(num_filters, "relu", name="convolution")

    def call(self, x, padding_mask):
        length, before = ops.shape(x)[1], (self.kernel_size - 1) // 2
        found = self.convolution(windows(x, self.kernel_size, before, self.kernel_size - 1))  # (B, before + L, F)
        inside = ops.expand_dims(ops.cast(self.inside(padding_mask), found.dtype), -1)  # (B, L, 1)
        # No number behind a ReLU is below zero, so zeros in place of other windows change no maximum.
        return found[:, :length], ops.max(found[:, before:] * inside, axis=1)

    def inside(self, padding_mask):
        """Whether the window that begins at a place holds as many real tokens as the text has, up to its width: bool (B, L)."""
        real = ops.cast(padding_mask, "int32")
        most = ops.minimum(ops.sum(real, axis=1, keepdims=True), self.kernel_size)  # (B, 1)
        padded = ops.pad(real, ((0, 0), (0, self.kernel_size - 1)))
        num_in_window = sum(padded[:, i : i + ops.shape(real)[1]] for i in range(self.kernel_size))  # (B, L)
        return ops.logical_and(ops.equal(num_in_window, most), ops.cast(padding_mask, "bool"))
