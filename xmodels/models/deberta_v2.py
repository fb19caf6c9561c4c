"""DeBERTa, of versions 2 and 3: Decoding-enhanced BERT with Disentangled Attention (He et al., 2020, arXiv 2006.03654; 2021, arXiv
2111.09543)."""

import dataclasses

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from data_pipelines.features import Feature
from xmodels.layers.activations import activation
from xmodels.layers.attention.disentangled import KINDS, LARGEST, Disentangled, RelativePositions
from xmodels.layers.blocks import attention_scores
from xmodels.layers.dropout import Dropout
from xmodels.layers.embeddings import positions_of
from xmodels.layers.heads import MaskedLMHead
from xmodels.layers.initialization import Initialization, gpt
from xmodels.layers.layer import Layer
from xmodels.layers.norms import LayerNorm
from xmodels.layers.token_convolution import TokenConvolution
from xmodels.models.bert import Encoder, default_visible, post_norm_block
from xmodels.models.config import MOST, NOTHING, AttentionConfig


@dataclasses.dataclass(frozen=True)
class DebertaV2Config(AttentionConfig):
    """Sizes as of BERT. The other fields have the names of the released configurations where these have one.

    Attributes:
        num_segments: rows of a table of segments; 0 for no table.
        position_biased_input: whether absolute positions are added to the tokens, as in BERT.
        position_buckets: of relative positions on each side; 0 for one of each distance.
        max_relative_positions: the longest distance that is told from others; 0 for `max_sequence_length`.
        pos_att_type: which scores have positions in them: one of `disentangled.KINDS`.
        share_att_key: whether positions are projected by the layers that project contents.
        norm_rel_ebd: whether relative positions are normalised.
        conv_kernel_size: the width of a convolution beside the first layer, an odd number; 0 for none.
        conv_act: its activation.
    """

    bounds = AttentionConfig.bounds | {
        "num_segments": (0, MOST), "position_buckets": (0, LARGEST), "max_relative_positions": (0, LARGEST),
        "conv_kernel_size": (0, 99),
    }  # fmt: skip
    choices = AttentionConfig.choices | {
        "pos_att_type": KINDS, "conv_act": ("gelu", "tanh", "relu"),
    }  # fmt: skip
    spare_rows = True  # released tables have more rows than their vocabularies tokens

    attention_dropout: float = 0.1
    activation: str = "gelu"
    layer_norm_epsilon: float = 1e-7
    initializer_stddev: float = 0.02
    num_segments: int = 0
    position_biased_input: bool = False
    position_buckets: int = 256
    max_relative_positions: int = 0
    pos_att_type: str = "c2p|p2c"
    share_att_key: bool = True
    norm_rel_ebd: bool = True
    conv_kernel_size: int = 0
    conv_act: str = "gelu"

    @property
    def longest_distance(self) -> int:
        return self.max_relative_positions or self.max_sequence_length

    @property
    def num_relative_positions(self) -> int:
        """Rows of the table of relative positions."""
        return 2 * (self.position_buckets or self.longest_distance)

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        if self.conv_kernel_size and self.conv_kernel_size % 2 == 0:
            raise CheckpointError(f"{source}: `conv_kernel_size` must be odd. Found: {self.conv_kernel_size}.")
        if self.position_buckets == 1 or self.longest_distance < 2:
            raise CheckpointError(
                f"{source}: `position_buckets` must be 0 or at least 2, and positions at least 2. Found: {self.position_buckets} "
                f"and {self.longest_distance}."
            )


@keras.saving.register_keras_serializable("xmodels")
class DebertaV2(Encoder):
    """BERT's encoder with disentangled attention over relative positions, without a pooler.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens. Packed rows also have `pack_ids` and
            `position_ids` int (B, L). `segment_ids` int (B, L) are read where there is a table of segments. `token_vectors` (B, L, D)
            take the place of the vectors of the tokens.
        visible: as of `Bert`.

    Returns:
        A dictionary of `sequence_output` and `last_input`, what the last block reads, (B, L, D) each.
    """

    config_class = DebertaV2Config
    may_read = dict.fromkeys(("pack_ids", "position_ids", "segment_ids"), Feature((None,)))

    def __init__(self, config: DebertaV2Config, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = TokenEmbedding(config, name="embedding")
        self.positions, self.blocks, self.convolution = _stack(config)

    @property
    def passes(self):
        return [] if self.config.conv_kernel_size else list(self.blocks)

    def embed(self, features, training=None):
        """Returns the embeddings, zeros for padding, (B, L, D)."""
        return self.embedding(features, training=training)

    def call(self, features, visible=None, training=None):
        visible = default_visible(features) if visible is None else visible
        states = _run(self, self.embed(features, training), features, visible, training)
        return {"sequence_output": states[-1], "last_input": states[-2]}

    def hidden_states(self, features, training=None):
        return _run(self, self.embed(features, training), features, default_visible(features), training)

    def attention_scores(self, features, states):
        return attention_scores(self.blocks, states, default_visible(features))


def _stack(config: DebertaV2Config):
    """Returns the relative positions, the blocks, and the convolution beside the first one, or None."""
    initialization = gpt(config.initializer_stddev)
    positions = RelativePositions(
        config.longest_distance, config.position_buckets, config.hidden_dim, initialization.inner(), config.dropout,
        config.layer_norm_epsilon if config.norm_rel_ebd else None, name="positions",
    )  # fmt: skip

    def mixer() -> Disentangled:
        return Disentangled(
            config.num_heads, config.hidden_dim, config.attention_dropout, initialization, positions, config.pos_att_type,
            config.share_att_key,
        )  # fmt: skip

    blocks = [
        post_norm_block(config, index, frozenset(), {}, initialization, mixer=mixer())
        for index in range(config.num_layers)
    ]
    convolution = Convolution(config, initialization, name="convolution") if config.conv_kernel_size else None
    return positions, blocks, convolution


def _run(network, x, features, visible, training=None) -> list:
    """Returns embeddings (B, L, D) and the outputs of all blocks of `network`, which has what `_stack` returns."""
    states = [x]
    for index, block in enumerate(network.blocks):
        y = block(states[-1], visible=visible, training=training)
        if index == 0 and network.convolution is not None:
            y = network.convolution(x, y, features, training=training)
        states.append(y)
    return states


class InputSum(Layer):
    """Adds positions and segments to vectors of tokens, where there are tables of them; then LayerNorm and dropout. Padding becomes
    zeros.

    Call arguments:
        vectors: (B, L, D).
        features: as of `DebertaV2`.

    Returns:
        (B, L, D)
    """

    def __init__(self, config: DebertaV2Config, **kwargs):
        super().__init__(**kwargs)
        self.max_sequence_length = config.max_sequence_length
        self.position = table(config, config.max_sequence_length, "position") if config.position_biased_input else None
        self.segment = table(config, config.num_segments, "segment") if config.num_segments else None
        self.norm = LayerNorm(epsilon=config.layer_norm_epsilon, name="norm")
        self.dropout = Dropout(config.dropout)

    def call(self, vectors, features, training=None):
        token_ids = features["token_ids"]
        positions = positions_of(token_ids, self.max_sequence_length)  # (1, L); checks the length
        x = vectors
        if self.position is not None:
            x = x + self.position(features.get("position_ids", positions))
        if self.segment is not None:
            x = x + self.segment(features.get("segment_ids", ops.zeros_like(token_ids)))
        real = ops.expand_dims(ops.cast(features["padding_mask"], x.dtype), -1)
        return self.dropout(self.norm(x) * real, training=training)


class TokenEmbedding(InputSum):
    """`InputSum` of the vectors of tokens, or of those in `token_vectors` of the features: features -> (B, L, D)."""

    def __init__(self, config: DebertaV2Config, **kwargs):
        super().__init__(config, **kwargs)
        self.token = table(config, config.vocabulary_size, "token")

    def call(self, features, training=None):
        vectors = features.get("token_vectors")
        return super().call(self.token(features["token_ids"]) if vectors is None else vectors, features, training)


class Convolution(Layer):
    """Adds a convolution of the embeddings to what the first block makes of them, then LayerNorm (He et al., 2020, appendix A.9:
    n-gram induced input).

    Call arguments:
        x: (B, L, D), the embeddings.
        y: (B, L, D), what the first block makes of them.
        features: as of `DebertaV2`; a token takes from real tokens, in packed rows from those of its example.

    Returns:
        (B, L, D), zeros for padding.
    """

    def __init__(self, config: DebertaV2Config, initialization: Initialization, **kwargs):
        super().__init__(**kwargs)
        self.layer = TokenConvolution(config.conv_kernel_size, config.hidden_dim, initialization.inner(), name="layer")
        self.norm = LayerNorm(epsilon=config.layer_norm_epsilon, name="norm")
        self.activation, self.dropout = activation(config.conv_act), Dropout(config.dropout)

    def call(self, x, y, features, training=None):
        packs = features.get("pack_ids", features["padding_mask"])
        real = ops.expand_dims(ops.cast(features["padding_mask"], x.dtype), -1)
        added = self.activation(self.dropout(self.layer(x, packs) * real, training=training))
        return self.norm(y + added) * real


class EnhancedMaskDecoder(Layer):
    """Makes states to predict masked tokens from: what the last block reads plus absolute positions, passed through the last block
    twice, as queries to what it reads (He et al., 2020, section 3.2, and the released code).

    Call arguments:
        x: (B, L, D), what the last block reads.
        block: the last block.
        features: as of `DebertaV2`.
        visible: as in its call.

    Returns:
        (B, L, D)
    """

    num_passes = 2

    def __init__(self, config: DebertaV2Config, **kwargs):
        super().__init__(**kwargs)
        self.position, self.most = table(config, config.max_sequence_length, "position"), config.max_sequence_length

    def call(self, x, block=None, features=None, visible=None, training=None):
        visible = default_visible(features) if visible is None else visible
        positions = features.get("position_ids", positions_of(features["token_ids"], self.most))
        query = x + self.position(positions)
        for _ in range(self.num_passes):
            query = block(query, visible=visible, context=x, training=training)
        return query


class Generator(Layer):
    """A masked language model on the table of tokens of another network, with layers of its own and the enhanced mask decoder (He
    et al., 2021, section 3.1).

    The network reads the sum of two vectors of a token: that of the table, which only the loss of this layer changes, and a
    difference, zero in the beginning, which only the loss of the network changes. The differences are a weight of this layer,
    `token_difference` (section 3.3, gradient-disentangled embedding sharing). A model folder has the sums in the table of the network.

    Args:
        config: its sizes, of the same width as the other network.

    Call arguments:
        features: as of `DebertaV2`, and `mask_positions` int (B, P).
        embedding: the embedding layer of the other network.

    Returns:
        float32 logits at the masked positions, (B, P, V)
    """

    def __init__(self, config: DebertaV2Config, **kwargs):
        super().__init__(**kwargs)
        self.token_difference = self.add_weight(
            shape=(config.vocabulary_size, config.hidden_dim), initializer="zeros", name="token_difference"
        )
        self.embedding = InputSum(config, name="embedding")
        self.positions, self.blocks, self.convolution = _stack(config)
        self.mask_decoder = None if config.position_biased_input else EnhancedMaskDecoder(config, name="mask_decoder")
        self.head = MaskedLMHead(config, gpt(config.initializer_stddev), name="head")

    def call(self, features, embedding, training=None):
        visible = default_visible(features)
        x = self.embedding(embedding.token(features["token_ids"]), features, training=training)
        states = _run(self, x, features, visible, training)
        x = states[-1]
        if self.mask_decoder is not None:
            x = self.mask_decoder(
                states[-2], block=self.blocks[-1], features=features, visible=visible, training=training
            )
        return self.head(x, features["mask_positions"], token_embedding=embedding.token)

    def vectors_for(self, token_ids, embedding):
        """Returns the vectors of tokens that the network reads, int (B, L) -> (B, L, D)."""
        shared = ops.stop_gradient(embedding.token(token_ids))
        return shared + ops.cast(ops.take(self.token_difference, token_ids, axis=0), shared.dtype)


def table(config: DebertaV2Config, rows: int, name: str) -> keras.layers.Embedding:
    """Returns a table of vectors as wide as the states."""
    initializer = gpt(config.initializer_stddev).inner()
    return keras.layers.Embedding(rows, config.hidden_dim, embeddings_initializer=initializer, name=name)


def _size(num_layers, hidden_dim, num_heads, **others):
    return {
        "num_layers": num_layers, "hidden_dim": hidden_dim, "num_heads": num_heads, "intermediate_dim": 4 * hidden_dim, **others
    }  # fmt: skip


# tiny and mini: ours, for trials. base and large: appendix A.3 of the paper. xlarge and xxlarge: the released version 2.
SIZES = {
    "tiny": _size(2, 128, 2),
    "mini": _size(4, 256, 4),
    "base": _size(12, 768, 12),
    "large": _size(24, 1024, 16),
    "xlarge": _size(24, 1536, 24, conv_kernel_size=3),
    "xxlarge": _size(48, 1536, 24, conv_kernel_size=3),
}
# Version 3: the released configurations.
SIZES_3 = {
    **{name: SIZES[name] for name in ("tiny", "mini")},
    "xsmall": _size(12, 384, 6),
    "small": _size(6, 768, 12),
    **{name: SIZES[name] for name in ("base", "large")},
}
