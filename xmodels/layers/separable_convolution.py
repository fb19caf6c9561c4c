"""Depth-wise separable convolutions in place of the feed-forward network (tensor2tensor's `sepconv_relu_sepconv`;
Dehghani et al., 2018, section 2.1), and blocks that use them."""

import math

import keras
from keras import ops

from xmodels.layers.activations import activation
from xmodels.layers.blocks import PreNormBlock
from xmodels.layers.convolution import next_inputs
from xmodels.layers.decoder_blocks import PreNormDecoderBlock
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import Initialization
from xmodels.layers.layer import Layer


class SeparableConvolution(keras.layers.Layer):
    """Convolves each channel over `width` positions, then mixes the channels: (B, L, C) -> (B, L, filters).

    If `is_causal`, a window ends at the position itself; otherwise it is centred on it. Beyond the ends of the text there are
    zeros.
    """

    def __init__(self, filters: int, width: int, is_causal: bool, initializer, **kwargs):
        super().__init__(**kwargs)
        self.width, self.before = width, width - 1 if is_causal else (width - 1) // 2
        self.dense = keras.layers.Dense(filters, kernel_initializer=initializer, name="dense")

    def build(self, x_shape):
        limit = math.sqrt(3.0 / self.width)  # preserves the variance of a channel
        initializer = keras.initializers.RandomUniform(-limit, limit)
        self.kernel = self.add_weight(shape=(self.width, x_shape[-1]), initializer=initializer, name="kernel")
        self.dense.build(x_shape)
        self.built = True

    def call(self, x):
        return self.inside(ops.pad(x, ((0, 0), (self.before, self.width - 1 - self.before), (0, 0))))

    def inside(self, x):
        """Convolves an input that is padded already: (B, L + width - 1, C) -> (B, L, filters)."""
        length, kernel = ops.shape(x)[1] - self.width + 1, ops.cast(self.kernel, x.dtype)
        return self.dense(sum(x[:, i : i + length] * kernel[i] for i in range(self.width)))

    def step(self, x, past, position):
        """Convolves the next positions of a text, if causal: (B, L, filters), and `past`; arguments as in `next_inputs`."""
        around, past = next_inputs(x, past, position, self.width)
        return self.inside(around), past


class ConvolutionTransition(Layer):
    """Two separable convolutions, of widths 3 and 5, with an activation and dropout in between.

    Call arguments:
        x: (B, L, D).
        real: bool (B, L), True on real tokens. Padding enters both convolutions as zeros; in tensor2tensor only the first.
            Not needed if the convolutions are causal and padding is on the right.

    Returns:
        (B, L, D)
    """

    def __init__(
        self, hidden_dim: int, intermediate_dim: int, activation_name: str, initialization: Initialization,
        dropout: float = 0.0, is_causal: bool = False, **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        self.widths = hidden_dim, intermediate_dim
        self.expand = SeparableConvolution(intermediate_dim, 3, is_causal, initialization.inner(), name="expand")
        self.contract = SeparableConvolution(hidden_dim, 5, is_causal, initialization.residual(), name="contract")
        self.activation = activation(activation_name)
        self.dropout = Dropout(dropout)

    def call(self, x, real=None, training=None):
        seen = 1.0 if real is None else ops.expand_dims(ops.cast(real, x.dtype), -1)
        inner = self.dropout(self.activation(self.expand(x * seen)), training=training)
        return self.contract(inner * seen)

    def start(self, batch, length: int) -> tuple:
        """Returns the initial `past` of `step`, for texts of at most `length` tokens."""
        pairs = zip((self.expand, self.contract), self.widths, strict=True)
        shapes = [(batch, length + part.width - 1, channels) for part, channels in pairs]
        return tuple(ops.zeros(shape, self.compute_dtype) for shape in shapes)

    def step(self, x, past, position):
        inner, first = self.expand.step(x, past[0], position)
        x, second = self.contract.step(self.activation(inner), past[1], position)
        return x, (first, second)


class PreNormConvolutionBlock(PreNormBlock):
    """A `PreNormBlock` whose feed-forward layer is a `ConvolutionTransition`, which needs the padding mask too."""

    def call(self, x, visible=None, training=None):
        mixed = self.mixer(self.mixer_norm(x), visible=visible, training=training)
        x = x + self.dropout(mixed, training=training)
        real = None if visible is None else visible.padding
        changed = self.feedforward(self.feedforward_norm(x), real=real, training=training)
        return x + self.dropout(changed, training=training)


class PreNormConvolutionDecoderBlock(PreNormDecoderBlock):
    """A `PreNormDecoderBlock` with a causal `ConvolutionTransition`, whose inputs are part of `past`."""

    shares_past = False  # a convolution reads the positions just before a token, which differ between beams

    def start(self, batch, length: int):
        return super().start(batch, length), self.feedforward.start(batch, length)

    def step(self, x, past, position, source, source_visible):
        mixed, tokens = self.mixer.step(self.mixer_norm(x), past[0], position)
        x = x + mixed
        x = x + self.cross.attend_to_kept(self.cross_norm(x), source, source_visible)
        changed, convolved = self.feedforward.step(self.feedforward_norm(x), past[1], position)
        return x + changed, (tokens, convolved)
