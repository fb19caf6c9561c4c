"""ModernBERT: Smarter, Better, Faster, Longer (Warner et al., 2024, arXiv 2412.13663)."""

import dataclasses

import keras

from data_pipelines.errors import CheckpointError
from data_pipelines.features import Feature
from xmodels.layers.activations import activation
from xmodels.layers.blocks import PreNormBlock
from xmodels.layers.dropout import Dropout
from xmodels.layers.feedforward import GatedFeedForward
from xmodels.layers.initialization import Initialization, truncated_normal
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.layers.rotary_attention import RotaryAttention
from xmodels.models.bert import Encoder
from xmodels.models.config import NOTHING, AttentionConfig


@dataclasses.dataclass(frozen=True)
class ModernBertConfig(AttentionConfig):
    """Sizes as of BERT. Nothing is dropped unless it is asked for.

    Attributes:
        max_sequence_length: limits rows; the network has no table of positions.
        window: how many tokens a token attends to on each side in the layers with local attention.
        global_every: every so many layers, from the first on, attend to all tokens.
        global_theta, local_theta: bases of the rotary angles of both kinds of layers.
    """

    bounds = AttentionConfig.bounds | {"global_theta": (1, 1e9), "local_theta": (1, 1e9)}
    of_no_weight = frozenset({"window", "max_sequence_length"})

    max_sequence_length: int = 8192
    dropout: float = 0.0
    attention_dropout: float = 0.0
    window: int = 64
    global_every: int = 3
    global_theta: float = 160_000.0
    local_theta: float = 10_000.0
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-5
    initializer_stddev: float = 0.02

    def keys_per_query(self, length: int) -> int:
        """Works as in `AttentionConfig`, as a mean over the layers."""
        every = self.global_every
        return (length + (every - 1) * min(length, 3 * self.window)) // every

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        if self.hidden_dim // self.num_heads % 2:
            raise CheckpointError(
                f"{source}: `{spelled.get('hidden_dim', 'hidden_dim')}` must give every head an even width, for rotary positions. "
                f"Found: {self.hidden_dim} and {self.num_heads} heads."
            )


@keras.saving.register_keras_serializable("xmodels")
class ModernBert(Encoder):
    """An encoder of pre-norm blocks with rotary positions, gated feed-forward layers, local attention in two layers of three, and
    no biases (section 2.1).

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens. Packed rows also have `pack_ids` int
            (B, L). Positions count from the beginning of a row, so padding stands at its end.
        visible: as of `Bert`.

    Returns:
        A dictionary of `sequence_output` (B, L, D).
    """

    config_class = ModernBertConfig
    may_read = {"pack_ids": Feature((None,))}

    def __init__(self, config: ModernBertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = TokenEmbedding(config, name="embedding")
        self.blocks = [_block(config, index) for index in range(config.num_layers)]
        self.norm = norm(config.layer_norm_epsilon, "norm")

    @property
    def passes(self):
        return []  # a norm follows the blocks

    def embed(self, features, training=None):
        """Returns the embeddings, (B, L, D)."""
        return self.embedding(features["token_ids"], training=training)

    def finish(self, x):
        return self.norm(x)


class TokenEmbedding(Layer):
    """LayerNorm(token), then dropout: int (B, L) -> (B, L, D)."""

    def __init__(self, config: ModernBertConfig, **kwargs):
        super().__init__(**kwargs)
        initializer = truncated_normal(config.initializer_stddev)
        self.token = keras.layers.Embedding(
            config.vocabulary_size, config.hidden_dim, embeddings_initializer=initializer, name="token"
        )
        self.norm = norm(config.layer_norm_epsilon, "norm")
        self.dropout = Dropout(config.dropout)

    def call(self, token_ids, training=None):
        return self.dropout(self.norm(self.token(token_ids)), training=training)


class PredictionHead(Layer):
    """Dense, activation and norm on the states that a head reads: (..., D) -> (..., D). Without biases."""

    def __init__(self, config: ModernBertConfig, initializer, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(config.hidden_dim, use_bias=False, kernel_initializer=initializer, name="dense")
        self.norm = norm(config.layer_norm_epsilon, "norm")
        self.activation = activation("gelu")

    def call(self, x):
        return self.norm(self.activation(self.dense(x)))


def norm(epsilon: float, name: str) -> LayerNorm:
    """Returns a LayerNorm without a bias."""
    return LayerNorm(epsilon=epsilon, center=False, name=name)


def initialization_of(config: ModernBertConfig) -> Initialization:
    """Returns that of section 2.1's code: truncated normal, scaled by 1 / sqrt(2 layers) where a block adds to the states."""
    stddev = config.initializer_stddev
    scaled = stddev / (2 * config.num_layers) ** 0.5
    return Initialization(lambda: truncated_normal(stddev), lambda: truncated_normal(scaled))


def _block(config: ModernBertConfig, index: int) -> PreNormBlock:
    """Returns a block; the norm of the embeddings is the first norm of the first one."""
    initialization, is_global = initialization_of(config), index % config.global_every == 0
    mixer = RotaryAttention(
        config.num_heads, config.hidden_dim, config.attention_dropout, initialization, use_bias=False,
        theta=config.global_theta if is_global else config.local_theta, window=None if is_global else config.window,
    )  # fmt: skip
    feedforward = GatedFeedForward(
        config.hidden_dim, config.intermediate_dim, config.activation, initialization, use_bias=False
    )

    def make_norm(epsilon, name):
        if name == "mixer_norm" and not index:
            return keras.layers.Identity(name=name)
        return norm(epsilon, name)

    return PreNormBlock(mixer, feedforward, config.dropout, config.layer_norm_epsilon, make_norm, name=f"block_{index}")


def _size(num_layers, hidden_dim, num_heads, intermediate_dim):
    return {
        "num_layers": num_layers,
        "hidden_dim": hidden_dim,
        "num_heads": num_heads,
        "intermediate_dim": intermediate_dim,
    }


# tiny and mini: ours, for trials. base and large: table 4 of the paper.
SIZES = {
    "tiny": _size(2, 128, 2, 192),
    "mini": _size(4, 256, 4, 384),
    "base": _size(22, 768, 12, 1152),
    "large": _size(28, 1024, 16, 2624),
}
