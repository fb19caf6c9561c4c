"""Star-Transformer (Guo et al., 2019, arXiv 1902.09113): tokens attend to their neighbours and to a relay, which attends to all."""

import dataclasses

import keras
from keras import ops

from xmodels.layers.attention.multi_head import MultiHeadAttention
from xmodels.layers.attention.star import Ring, attend_to_few
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import Block
from xmodels.layers.dropout import Dropout
from xmodels.layers.embeddings import TokenPositionEmbedding
from xmodels.layers.initialization import glorot
from xmodels.layers.mixers import ProjectedMixer
from xmodels.layers.norms import LayerNorm
from xmodels.layers.pooling import max_state, mean_state
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING, LayersConfig

PAPER, CODE = "paper", "code"


@dataclasses.dataclass(frozen=True)
class StarTransformerConfig(LayersConfig):
    """A network without feed-forward layers, whose heads may have a width of their own.

    Attributes:
        head_dim: width of a head; by default `hidden_dim` / `num_heads`.
        form: what follows attention. `paper`: LayerNorm(ReLU(.)), equations 4 to 7. `code`: a leaky ReLU, with a LayerNorm on the
            tokens before they attend, as in the authors' code.
        is_ring: whether the first and the last token are neighbours, as in the paper; the authors' code has zeros there.
        dropout: on the embeddings, and of heads of tasks.
        attention_dropout: on the attention probabilities.
        activation: of the head for masked LM.
        initializer_stddev: of embeddings and heads; kernels are Glorot uniform, since no residual sum keeps what enters a layer.
    """

    choices = LayersConfig.choices | {"form": (PAPER, CODE)}

    num_layers: int = 2
    num_heads: int = 6
    head_dim: int | None = None
    max_sequence_length: int = 512
    form: str = PAPER
    is_ring: bool = True
    attention_dropout: float = 0.1
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-5
    initializer_stddev: float = 0.05

    @property
    def longest(self):
        return self.max_sequence_length

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `TokenConfig`; per layer about 15 numbers for each of the width of all heads, and 20 per head for the five
        keys of a token."""
        width = max(self.hidden_dim, self.num_heads * (self.head_dim or 0))
        layer = 4 * (15 * width + 20 * self.num_heads)
        return layer + 4 * self.num_layers * self.hidden_dim if rematerialize else self.num_layers * layer

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        self._check_table("max_sequence_length", "hidden_dim", source, spelled)
        if self.head_dim is None:
            self._check_heads(source, spelled)


class RingAttention(ProjectedMixer):
    """Attention of each token to itself, its neighbours, its embedding and the relay (equations 2 to 4).

    Arguments as in `ProjectedMixer`.

    Call arguments:
        x: (B, L, D), the states of the tokens.
        embedded: (B, L, D), their embeddings.
        relay: (B, 1, D).
        ring: a `Ring`, which neighbours there are.

    Returns:
        (B, L, D)
    """

    def call(self, x, embedded, relay, ring: Ring, training=None):
        key, value = self.project(x)
        further = [self.project(embedded), self.project(relay)]
        keys, values = ([*ring.around(part), *(pair[i] for pair in further)] for i, part in enumerate((key, value)))
        return self.merge(attend_to_few(self.query(x), keys, values, [*ring.there, None, None], self.dropout, training))


class StarBlock(Block):
    """One update of the tokens, then of the relay (algorithm 1).

    Call arguments:
        x: (B, L, D), the states of the tokens.
        relay: (B, 1, D).
        embedded: (B, L, D), the embeddings.
        padding_mask: bool (B, L), True on real tokens, which stand side by side.

    Returns:
        Both states, (B, L, D) and (B, 1, D); zeros at padding.
    """

    def __init__(self, config: StarTransformerConfig, **kwargs):
        super().__init__(**kwargs)
        sizes = config.num_heads, config.hidden_dim, config.attention_dropout, glorot()
        self.mixer = RingAttention(*sizes, head_dim=config.head_dim, name="mixer")
        self.relay_mixer = MultiHeadAttention(*sizes, head_dim=config.head_dim, name="relay_mixer")
        self.is_ring, self.is_paper = config.is_ring, config.form == PAPER
        epsilon = config.layer_norm_epsilon
        self.mixer_norm = LayerNorm(epsilon=epsilon, name="mixer_norm")
        if self.is_paper:
            self.relay_norm = LayerNorm(epsilon=epsilon, name="relay_norm")

    def call(self, x, relay, embedded, padding_mask, training=None):
        query = x if self.is_paper else self.mixer_norm(x)
        ring = Ring(padding_mask, self.is_ring)
        x = self.mixer(query, embedded=embedded, relay=relay, ring=ring, training=training)
        x = self.mixer_norm(ops.relu(x)) if self.is_paper else ops.leaky_relu(x, 0.01)
        x = x * ops.expand_dims(ops.cast(padding_mask, x.dtype), -1)
        visible = Visible(ops.pad(padding_mask, ((0, 0), (1, 0)), constant_values=True))
        relay = self.relay_mixer(relay, visible=visible, context=ops.concatenate([relay, x], axis=1), training=training)
        relay = self.relay_norm(ops.relu(relay)) if self.is_paper else ops.leaky_relu(relay, 0.01)
        return x, relay


@keras.saving.register_keras_serializable("xmodels")
class StarTransformer(Backbone):
    """Tokens in a ring around a relay, over token and position embeddings. A layer takes time in proportion to the length.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens, which stand side by side.

    Returns:
        A dictionary of `sequence_output` (B, L, D), zeros at padding, `relay_output` (B, D), and `pooled_output` (B, D), the mean of
        the relay and the maximum over the real tokens (section 4.1).
    """

    config_class = StarTransformerConfig

    def __init__(self, config: StarTransformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = TokenPositionEmbedding(config, name="embedding")
        self.blocks = [StarBlock(config, name=f"block_{index}") for index in range(config.num_layers)]
        self.dropout = Dropout(config.dropout)

    def call(self, features, training=None):
        states, relay = self._run(features, training)
        relay = relay[:, 0]  # (B, D)
        pooled = (max_state(states[-1], features["padding_mask"]) + relay) / 2
        return {"sequence_output": states[-1], "relay_output": relay, "pooled_output": pooled}

    def hidden_states(self, features, training=None):
        """Returns the embeddings and the output of every block, num_layers + 1 tensors (B, L, D)."""
        return self._run(features, training)[0]

    def _run(self, features, training):
        real = ops.cast(features["padding_mask"], "bool")
        embedded = self.embedding(features["token_ids"])  # (B, L, D)
        x = self.dropout(embedded, training=training)
        relay = ops.expand_dims(mean_state(x, real), 1)  # (B, 1, D)
        states = [x]
        for block in self.blocks:
            x, relay = block(x, relay=relay, embedded=embedded, padding_mask=real, training=training)
            states.append(x)
        return states, relay


def _size(num_layers, hidden_dim, num_heads, head_dim) -> dict:
    return {"num_layers": num_layers, "hidden_dim": hidden_dim, "num_heads": num_heads, "head_dim": head_dim}


# tiny and mini: ours, for trials. base: the width of GloVe's vectors that the paper reads, with the least of its layers and heads;
# large: the most of them.
SIZES = {
    "tiny": _size(2, 128, 4, 32),
    "mini": _size(4, 256, 8, 32),
    "base": _size(2, 300, 6, 50),
    "large": _size(4, 300, 10, 50),
}
