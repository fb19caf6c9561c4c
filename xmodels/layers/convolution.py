"""Convolutions over tokens as matrix products with windows: a kernel (width * D, F) is that of Keras, (width, D, F), reshaped."""

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer


def windows(x, width: int, before: int, after: int, dilation: int = 1):
    """Concatenates the `width` positions of each window, `dilation` apart, of x padded with `before` and `after` zeros.

    A matrix product with windows gives an empty batch the right shape; TensorFlow's convolutions do not.

    Args:
        x: (B, L, D).

    Returns:
        (B, L + before + after - (width - 1) * dilation, width * D)
    """
    x = ops.pad(x, ((0, 0), (before, after), (0, 0)))
    count = ops.shape(x)[1] - (width - 1) * dilation
    return ops.concatenate([x[:, i * dilation : i * dilation + count] for i in range(width)], axis=-1)


def next_inputs(x, past, position, width: int):
    """Adds the inputs of the next positions of a text to those before them, for a causal convolution that decodes.

    Args:
        x: (B, L, C), the inputs from `position` on.
        past: (B, S + width - 1, C), the inputs so far, after width - 1 zeros.
        width: positions in a window.

    Returns:
        What the windows of these positions see, (B, L + width - 1, C), and `past` updated with x.
    """
    past = ops.slice_update(past, (0, position + width - 1, 0), ops.cast(x, past.dtype))
    places = position + ops.arange(ops.shape(x)[1] + width - 1, dtype="int32")
    return ops.take(past, places, axis=1), past


class GatedConvolution(Layer):
    """A convolution with a gated linear unit and a residual (Gehring et al., 2017, arXiv 1705.03122, section 3.2).

    y = (x + a * sigmoid(b)) * sqrt(1/2), where [a, b] is the convolution of x.

    Args:
        hidden_dim: D.
        kernel_size: positions in a window.
        dropout: rate on the input of the convolution; the initial scale of the kernel accounts for it (appendix A).
        dilation: the distance between neighbouring positions of a window.
        is_causal: whether a window ends at the position itself; otherwise it is centred on it. Beyond the ends of the text
            there are zeros.

    Call arguments:
        x: (B, L, D).
        padding_mask: bool (B, L), True on real tokens; padding enters the convolution as zeros.

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
            )  # padding counts as zeros beyond the end
        seen = windows(inside, self.kernel_size, self.before, self.after, self.dilation)  # (B, L, width D)
        a, b = ops.split(self.convolution(seen), 2, axis=-1)  # (B, L, D) each
        return (x + a * ops.sigmoid(b)) * 0.5**0.5


class TokenWindows(Layer):
    """A convolution with ReLU, and its max over time (Kim, 2014, arXiv 1408.5882, equations 2 to 4).

    Args:
        num_filters: F.
        kernel_size: tokens in a window.
        convolution: another layer for what windows see; its outputs are not negative.

    Call arguments:
        x: (B, L, E), zeros at padding.
        padding_mask: bool (B, L), True on real tokens.

    Returns:
        (B, L, F), the features of the window around each token, with zeros beyond the ends; and (B, F), the maximum over the
        windows that lie inside the text. A text shorter than a window has one, padded with zeros.
    """

    def __init__(self, num_filters: int, kernel_size: int, convolution=None, **kwargs):
        super().__init__(**kwargs)
        self.kernel_size = kernel_size
        self.convolution = convolution or keras.layers.Dense(num_filters, "relu", name="convolution")

    def call(self, x, padding_mask):
        length, before = ops.shape(x)[1], (self.kernel_size - 1) // 2
        found = self.convolution(self.seen(x, before, self.kernel_size - 1))  # (B, before + L, F)
        inside = ops.expand_dims(ops.cast(self.inside(padding_mask), found.dtype), -1)  # (B, L, 1)
        # The output of a ReLU is never negative, so zeros for the other windows do not change the maximum.
        return found[:, :length], ops.max(found[:, before:] * inside, axis=1)

    def seen(self, x, before: int, after: int):
        """Returns what each window sees, as `windows`."""
        return windows(x, self.kernel_size, before, after)

    def inside(self, padding_mask):
        """Returns whether the window that starts at each position lies inside the text: bool (B, L).

        It must hold `kernel_size` real tokens, or all of them if the text is shorter.
        """
        real = ops.cast(padding_mask, "int32")
        most = ops.minimum(ops.sum(real, axis=1, keepdims=True), self.kernel_size)  # (B, 1)
        padded = ops.pad(real, ((0, 0), (0, self.kernel_size - 1)))
        num_in_window = sum(padded[:, i : i + ops.shape(real)[1]] for i in range(self.kernel_size))  # (B, L)
        return ops.logical_and(ops.equal(num_in_window, most), ops.cast(padding_mask, "bool"))
