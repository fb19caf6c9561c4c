"""The cells of the Evolved Transformer (So, Liang and Le, 2019, arXiv 1901.11117, figure 3), as in tensor2tensor.

Every part is a residual branch behind a norm. Convolutions see zeros at padding.
"""

from keras import ops

from xmodels.layers import initialization as initializations
from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.blocks import Block
from xmodels.layers.convolution import windows
from xmodels.layers.dropout import Dropout
from xmodels.layers.feedforward import FeedForward, dense
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.layers.separable_convolution import SeparableConvolution


class GatedUnit(Layer):
    """A gated linear unit, W x * sigmoid(V x): (B, L, D) -> (B, L, D)."""

    def __init__(self, hidden_dim: int, **kwargs):
        super().__init__(**kwargs)
        glorot = initializations.glorot()
        self.linear, self.gate = (dense(hidden_dim, glorot.inner(), True, name) for name in ("linear", "gate"))

    def call(self, x):
        return self.linear(x) * ops.sigmoid(self.gate(x))


class EncoderBranches(Layer):
    """A Dense layer of width 4 D beside a convolution of width 3 and D / 2 channels, then a separable convolution of width 9.

    The sum of the two has the convolution in its first channels only, and a norm. The result has D / 2 channels, then zeros.

    Call arguments:
        x: (B, L, D).
        real: bool (B, L), True on real tokens; None if all are.

    Returns:
        (B, L, D)
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        glorot, width = initializations.glorot(), config.hidden_dim
        self.left = dense(4 * width, glorot.inner(), True, "left")
        self.right = dense(width // 2, glorot.inner(), True, "right")
        self.norm = LayerNorm(epsilon=config.layer_norm_epsilon, name="norm")
        self.merge = SeparableConvolution(width // 2, 9, False, glorot.residual(), name="merge")
        self.dropout = Dropout(config.intermediate_dropout)

    def call(self, x, real=None, training=None):
        seen = 1.0 if real is None else ops.expand_dims(ops.cast(real, x.dtype), -1)
        x, width = x * seen, x.shape[-1]
        left = self.dropout(ops.relu(self.left(x)), training=training)
        right = self.dropout(ops.relu(self.right(windows(x, 3, 1, 1))), training=training)
        both = self.norm(left + pad_channels(right, 4 * width))
        return pad_channels(self.merge(both * seen), width)


class DecoderBranches(Layer):
    """Separable convolutions of width 11 with 2 D channels and of width 7 with D / 2, then one of width 7. All are causal.

    The sum of the first two has the second in its first channels only, and a norm.

    Call arguments:
        x: (B, T, D), padded on the right.

    Returns:
        (B, T, D)
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        glorot, self.hidden_dim = initializations.glorot(), config.hidden_dim
        self.left = SeparableConvolution(2 * self.hidden_dim, 11, True, glorot.inner(), name="left")
        self.right = SeparableConvolution(self.hidden_dim // 2, 7, True, glorot.inner(), name="right")
        self.norm = LayerNorm(epsilon=config.layer_norm_epsilon, name="norm")
        self.merge = SeparableConvolution(self.hidden_dim, 7, True, glorot.residual(), name="merge")
        self.dropout = Dropout(config.intermediate_dropout)

    def call(self, x, training=None):
        return self.merge(self.add(self.left(x), self.right(x), training))

    def add(self, left, right, training=None):
        """Returns the normalised sum of the first two convolutions, (B, T, 2 D)."""
        left = self.dropout(ops.relu(left), training=training)
        right = self.dropout(right, training=training)
        return self.norm(left + pad_channels(right, 2 * self.hidden_dim))

    def start(self, batch, length: int) -> tuple:
        """Returns the initial `past` of `step`, for texts of at most `length` tokens: the inputs of each convolution."""
        parts = (self.left, self.hidden_dim), (self.right, self.hidden_dim), (self.merge, 2 * self.hidden_dim)
        shapes = [(batch, length + part.width - 1, channels) for part, channels in parts]
        return tuple(ops.zeros(shape, self.compute_dtype) for shape in shapes)

    def step(self, x, past, position):
        """Returns the result for the next positions, and `past` updated with them; as `SeparableConvolution.step`."""
        left, first = self.left.step(x, past[0], position)
        right, second = self.right.step(x, past[1], position)
        mixed, third = self.merge.step(self.add(left, right), past[2], position)
        return mixed, (first, second, third)


class NormedFeedForward(FeedForward):
    """A feed-forward network with a norm of its inner layer, behind the dropout. Arguments as in `FeedForward`; also `epsilon`."""

    def __init__(self, *args, epsilon: float, **kwargs):
        super().__init__(*args, **kwargs)
        self.norm = LayerNorm(epsilon=epsilon, name="norm")

    def call(self, x, training=None):
        return self.contract(self.norm(self.dropout(self.inner(x), training=training)))


class EvolvedEncoderBlock(Block):
    """A gated linear unit, convolutions, attention and a feed-forward network.

    Args:
        config: has `hidden_dim`, `intermediate_dim`, `num_heads`, `activation`, `dropout`, `attention_dropout`,
            `intermediate_dropout`, `attention_bias` and `layer_norm_epsilon`.

    Call arguments:
        x: (B, L, D).
        visible: a `Visible`, whose `padding` hides padding from the convolutions too.

    Returns:
        (B, L, D)
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.gated = GatedUnit(config.hidden_dim, name="gated")
        self.branches = EncoderBranches(config, name="branches")
        self.mixer = attention(config, config.num_heads, "mixer")
        self.feedforward = FeedForward(
            config.hidden_dim, config.intermediate_dim, config.activation, initializations.glorot(),
            config.intermediate_dropout, name="feedforward",
        )  # fmt: skip
        self.gated_norm, self.branches_norm, self.mixer_norm, self.feedforward_norm = norms(
            config, "gated", "branches", "mixer", "feedforward"
        )
        self.dropout = Dropout(config.dropout)

    def call(self, x, visible=None, training=None):
        x = self.convolve(x, visible, training)
        mixed = self.mixer(self.mixer_norm(x), visible=visible, training=training)
        x = x + self.dropout(mixed, training=training)
        changed = self.feedforward(self.feedforward_norm(x), training=training)
        return x + self.dropout(changed, training=training)

    def convolve(self, x, visible=None, training=None):
        """Returns what enters the attention, (B, L, D)."""
        x = x + self.dropout(self.gated(self.gated_norm(x)), training=training)
        real = None if visible is None else visible.padding
        branches = self.branches(self.branches_norm(x), real=real, training=training)
        return x + self.dropout(branches, training=training)

    def attention_map(self, x, visible=None):
        """Returns the attention probabilities, float32 (B, H, L, L), for pictures."""
        return self.mixer.probabilities(self.mixer_norm(self.convolve(x, visible)), visible)


class EvolvedDecoderBlock(Block):
    """Two attentions side by side, convolutions, attention to the target, to the source, and a feed-forward network.

    The first attention to the target has `first_heads` heads. Arguments as in `EvolvedEncoderBlock`; call arguments and results as in
    `PostNormDecoderBlock`.
    """

    shares_past = False  # convolutions read the positions just before a token, which differ between beams

    def __init__(self, config, first_heads: int, **kwargs):
        super().__init__(**kwargs)
        self.first, self.mixer = attention(config, first_heads, "first"), attention(config, config.num_heads, "mixer")
        self.first_cross, self.cross = (attention(config, config.num_heads, name) for name in ("first_cross", "cross"))
        self.branches = DecoderBranches(config, name="branches")
        self.feedforward = NormedFeedForward(
            config.hidden_dim, config.intermediate_dim, "swish", initializations.glorot(), config.intermediate_dropout,
            epsilon=config.layer_norm_epsilon, name="feedforward",
        )  # fmt: skip
        self.first_norm, self.branches_norm, self.mixer_norm, self.cross_norm, self.feedforward_norm = norms(
            config, "first", "branches", "mixer", "cross", "feedforward"
        )
        self.dropout = Dropout(config.dropout)

    def call(self, x, source, visible=None, source_visible=None, training=None):
        about_source = {"visible": source_visible, "context": source, "training": training}
        u = self.first_norm(x)
        left = self.first(u, visible=visible, training=training)
        right = self.first_cross(u, **about_source)
        x = x + self.dropout(left, training=training) + self.dropout(right, training=training)
        x = x + self.dropout(self.branches(self.branches_norm(x), training=training), training=training)
        mixed = self.mixer(self.mixer_norm(x), visible=visible, training=training)
        x = x + self.dropout(mixed, training=training)
        x = x + self.dropout(self.cross(self.cross_norm(x), **about_source), training=training)
        changed = self.feedforward(self.feedforward_norm(x), training=training)
        return x + self.dropout(changed, training=training)

    def keep(self, source):
        """Returns the keys and values of the source for both attentions to it."""
        return self.first_cross.keep(source), self.cross.keep(source)

    def start(self, batch, length: int):
        """Returns the initial `past` of `step`, for targets of at most `length` tokens."""
        return self.first.start(batch, length), self.branches.start(batch, length), self.mixer.start(batch, length)

    def step(self, x, past, position, source, source_visible):
        """Returns one step of decoding. `source` is the result of `keep`; other arguments and results as in the mixer's `step`."""
        u = self.first_norm(x)
        left, first = self.first.step(u, past[0], position)
        x = x + left + self.first_cross.attend_to_kept(u, source[0], source_visible)
        convolved, inputs = self.branches.step(self.branches_norm(x), past[1], position)
        x = x + convolved
        mixed, second = self.mixer.step(self.mixer_norm(x), past[2], position)
        x = x + mixed
        x = x + self.cross.attend_to_kept(self.cross_norm(x), source[1], source_visible)
        return x + self.feedforward(self.feedforward_norm(x)), (first, inputs, second)


def attention(config, num_heads: int, name: str) -> MultiHeadAttention:
    """Returns the attention of a configuration with so many heads."""
    sizes = num_heads, config.hidden_dim, config.attention_dropout
    return MultiHeadAttention(*sizes, initializations.glorot(), config.attention_bias, name=name)


def norms(config, *names: str) -> list[LayerNorm]:
    """Returns the norm of each part of a block."""
    epsilon = config.layer_norm_epsilon
    return [LayerNorm(epsilon=epsilon, name=f"{name}_norm") for name in names]


def pad_channels(x, width: int):
    """Appends channels of zeros: (B, L, C) -> (B, L, width)."""
    return ops.pad(x, ((0, 0), (0, 0), (0, width - x.shape[-1])))
