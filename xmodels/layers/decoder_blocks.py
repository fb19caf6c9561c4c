"""Residual blocks of a decoder: self-attention, attention to an encoded source, feed-forward."""

import functools

from xmodels.layers.blocks import Block
from xmodels.layers.dropout import Dropout
from xmodels.layers.norms import LayerNorm


class PostNormDecoderBlock(Block):
    """Normalises after each residual sum (Vaswani et al., 2017, section 3.1).

    Args:
        mixer: the self-attention.
        cross: the attention to the source.
        feedforward: the position-wise layer.
        dropout: rate on the output of each, before the residual sums.
        epsilon: of the norms.
        norm: the class of the norms.

    Call arguments:
        x: (B, T, D).
        source: (B, S, D), the encoded source.
        visible: a `Visible`, which tokens of the target those of the target may attend to.
        source_visible: a `Visible`, which tokens of the source they may attend to.

    Returns:
        (B, T, D)
    """

    def __init__(
        self, mixer, cross, feedforward, dropout: float, epsilon: float = 1e-6, norm=LayerNorm,
        **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        self.mixer, self.cross, self.feedforward = mixer, cross, feedforward
        self.mixer_norm, self.cross_norm, self.feedforward_norm = (
            norm(epsilon=epsilon, name=f"{part}_norm") for part in ("mixer", "cross", "feedforward")
        )
        self.dropout = Dropout(dropout)

    def call(self, x, source, visible=None, source_visible=None, training=None):
        mixed = self.mixer(x, visible=visible, training=training)
        x = self.mixer_norm(x + self.dropout(mixed, training=training))
        cross = functools.partial(self.cross, visible=source_visible, context=source, training=training)
        return self._after_mixer(x, cross, training)

    def start(self, batch, length: int):
        """Returns the initial `past` of `step`, for targets of at most `length` tokens."""
        return self.mixer.start(batch, length)

    def keep(self, source):
        """Returns what `step` needs of an encoded source (B, S, D)."""
        return self.cross.keep(source)

    def step(self, x, past, place, source, source_visible):
        """Returns one step of decoding. `source` is the result of `keep`; other arguments and results as in the mixer's
        `step`."""
        mixed, past = self.mixer.step(x, past, place)
        cross = functools.partial(self.cross.attend_to_kept, kept=source, visible=source_visible)
        return self._after_mixer(self.mixer_norm(x + mixed), cross, False), past

    def _after_mixer(self, x, cross, training):
        x = self.cross_norm(x + self.dropout(cross(x), training=training))
        changed = self.feedforward(x, training=training)
        return self.feedforward_norm(x + self.dropout(changed, training=training))


class PreNormDecoderBlock(PostNormDecoderBlock):
    """Normalises the input of each residual branch (Xiong et al., 2020). The source must be normalised by the encoder."""

    def call(self, x, source, visible=None, source_visible=None, training=None):
        mixed = self.mixer(self.mixer_norm(x), visible=visible, training=training)
        x = x + self.dropout(mixed, training=training)
        cross = functools.partial(self.cross, visible=source_visible, context=source, training=training)
        return self._after_mixer(x, cross, training)

    def step(self, x, past, place, source, source_visible):
        mixed, past = self.mixer.step(self.mixer_norm(x), past, place)
        cross = functools.partial(self.cross.attend_to_kept, kept=source, visible=source_visible)
        return self._after_mixer(x + mixed, cross, False), past

    def _after_mixer(self, x, cross, training):
        x = x + self.dropout(cross(self.cross_norm(x)), training=training)
        changed = self.feedforward(self.feedforward_norm(x), training=training)
        return x + self.dropout(changed, training=training)
