"""Residual blocks around a built mixer and a built feed-forward layer."""

from collections.abc import Sequence

from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.layers.rematerialization import is_wanted, recompute


class Block(Layer):
    """Base class of the blocks of a network. Inside `rematerialized()` only its inputs are kept for the gradient.

    Call arguments:
        x: (B, L, D). All others by name.
    """

    @property
    def shares_past(self) -> bool:
        """Whether `step` supports beams that share a past; as for its mixer."""
        return self.mixer.shares_past

    def __call__(self, x, **others):
        if is_wanted() and others.get("training") and self.built:
            return recompute(super().__call__, x, **others)
        return super().__call__(x, **others)


class PostNormBlock(Block):
    """Normalises after each residual sum, as the original Transformer and BERT do.

    Args:
        mixer: the layer that mixes tokens, such as `MultiHeadAttention`.
        feedforward: the position-wise layer.
        dropout: rate on the output of both, before the residual sums.
        epsilon: of the norms.
        mixer_norm, feedforward_norm: layers to use as norms, to share those of another block; by default the block makes its own.

    Call arguments:
        x: (B, L, D).
        visible: a `Visible`, which keys the queries may attend to; passed to the mixer.
        context: (B, S, D), passed to the mixer if given.

    Returns:
        (B, L, D)
    """

    def __init__(
        self,
        mixer,
        feedforward,
        dropout: float,
        epsilon: float = 1e-12,
        mixer_norm=None,
        feedforward_norm=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        norm = LayerNorm
        self.mixer = mixer
        self.feedforward = feedforward
        self.mixer_norm = mixer_norm or norm(epsilon=epsilon, name="mixer_norm")
        self.feedforward_norm = feedforward_norm or norm(epsilon=epsilon, name="feedforward_norm")
        self.dropout = Dropout(dropout)

    def call(self, x, visible=None, context=None, training=None):
        others = {} if context is None else {"context": context}
        mixed = self.mixer(x, visible=visible, training=training, **others)
        x = self.mixer_norm(x + self.dropout(mixed, training=training))
        changed = self.feedforward(x, training=training)
        return self.feedforward_norm(x + self.dropout(changed, training=training))

    def attend_to_kept(self, x, kept, visible):
        """Returns what a call with `context` returns, given its keys and values `kept` as the mixer's `keep` returns them."""
        return self._after_mixer(x, self.mixer.attend_to_kept(x, kept, visible))

    def attention_map(self, x, visible=None):
        """Returns the attention probabilities of the mixer, float32 (B, H, L, L), for pictures."""
        return self.mixer.probabilities(x, visible)

    def attention_scores(self, x, visible=None):
        """Returns what the softmax of the attention in a call reads, float32 (B, H, L, L)."""
        return self.mixer.scores(x, visible)

    def start(self, batch, length: int):
        """Returns the initial `past` of `step`; as the mixer's `start`."""
        return self.mixer.start(batch, length)

    def step(self, x, past, place):
        """Returns one step of decoding; arguments and results as those of the mixer's `step`."""
        mixed, past = self.mixer.step(x, past, place)
        return self._after_mixer(x, mixed), past

    def _after_mixer(self, x, mixed):
        x = self.mixer_norm(x + mixed)
        return self.feedforward_norm(x + self.feedforward(x))


class PreNormBlock(Block):
    """Normalises the input of each residual branch (Xiong et al., 2020; GPT-2). The stack needs a final norm.

    Args:
        mixer, feedforward, dropout, epsilon: as in `PostNormBlock`.
        norm: the class of the norms.

    Call arguments and results as in `PostNormBlock`, without `context`.
    """

    def __init__(self, mixer, feedforward, dropout: float, epsilon: float = 1e-6, norm=LayerNorm, **kwargs):
        super().__init__(**kwargs)
        self.mixer = mixer
        self.feedforward = feedforward
        self.mixer_norm = norm(epsilon=epsilon, name="mixer_norm")
        self.feedforward_norm = norm(epsilon=epsilon, name="feedforward_norm")
        self.dropout = Dropout(dropout)

    def call(self, x, visible=None, training=None):
        mixed = self.mixer(self.mixer_norm(x), visible=visible, training=training)
        x = x + self.dropout(mixed, training=training)
        changed = self.feedforward(self.feedforward_norm(x), training=training)
        return x + self.dropout(changed, training=training)

    def attention_map(self, x, visible=None):
        """Returns the attention probabilities of the mixer, float32 (B, H, L, L), for pictures."""
        return self.mixer.probabilities(self.mixer_norm(x), visible)

    def attention_scores(self, x, visible=None):
        """Returns what the softmax of the attention in a call reads, float32 (B, H, L, L)."""
        return self.mixer.scores(self.mixer_norm(x), visible)

    def start(self, batch, length: int):
        """Returns the initial `past` of `step`; as the mixer's `start`."""
        return self.mixer.start(batch, length)

    def step(self, x, past, place):
        """Returns one step of decoding; arguments and results as those of the mixer's `step`."""
        mixed, past = self.mixer.step(self.mixer_norm(x), past, place)
        x = x + mixed
        return x + self.feedforward(self.feedforward_norm(x)), past


def attention_maps(blocks: Sequence[Block], states: Sequence, visible) -> list:
    """Returns the attention probabilities of each block, float32 (B, H, L, L), for pictures.

    Args:
        states: the inputs of the blocks, (B, L, D) each; surplus ones are ignored.
        visible: as in a call of a block.
    """
    return [block.attention_map(x, visible) for block, x in zip(blocks, states, strict=False)]


def attention_scores(blocks: Sequence[Block], states: Sequence, visible) -> list:
    """Returns what the softmax of the attention of each block reads, float32 (B, H, L, L); [] where a mixer has no such scores.

    Compilers that find what is computed twice take queries and keys from the call of the block.

    Args:
        states, visible: as of `attention_maps`.
    """
    if not all(block.mixer.has_scores for block in blocks):
        return []
    return [block.attention_scores(x, visible) for block, x in zip(blocks, states, strict=False)]
