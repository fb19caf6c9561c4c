"""ALBERT: A Lite BERT for Self-supervised Learning of Language Representations (Lan et al., 2019, arXiv 1909.11942)."""

import dataclasses
from typing import Any, ClassVar

import keras

from data_pipelines.errors import CheckpointError
from data_pipelines.features import Feature
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import attention_maps, attention_scores
from xmodels.layers.embeddings import SumEmbedding
from xmodels.layers.initialization import truncated_normal
from xmodels.layers.layer import Layer
from xmodels.layers.rows import take_rows
from xmodels.models.backbone import Backbone
from xmodels.models.bert import default_visible, post_norm_block
from xmodels.models.config import NOTHING
from xmodels.models.mixing import MixerConfig

HALVES = {"attention": ("mixer", "mixer_norm"), "feedforward": ("feedforward", "feedforward_norm")}  # of a block


@dataclasses.dataclass(frozen=True)
class AlbertConfig(MixerConfig):
    """`num_layers` passes through `num_groups` groups of `num_inner_layers` blocks. Each group has weights of its own.

    Attributes:
        sharing: the weights that passes share (section 3.1). "all": those of their group. "attention": all passes share the
            attention and its norm. "feedforward": all passes share the feed-forward layer and its norm. "none": nothing, which
            is the same as `num_groups` = `num_layers`.
        embedding_dim: the width of the embeddings, which are projected to `hidden_dim`.
        force_projection: whether to project even if the two widths are equal, as Hugging Face's networks do and Google's do not.
        activation: "gelu_tanh" in Google's code and in Hugging Face's configurations of version 2, "gelu", the erf form,
            in those of version 1.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = MixerConfig.choices | {
        "sharing": ("all", "attention", "feedforward", "none")
    }

    num_segments: int = 2
    embedding_dim: int = 128
    num_groups: int = 1
    num_inner_layers: int = 1
    force_projection: bool = False
    attention_dropout: float = 0.1
    activation: str = "gelu_tanh"
    layer_norm_epsilon: float = 1e-12
    initializer_stddev: float = 0.02
    sharing: str = "all"

    def __post_init__(self):
        super().__post_init__()
        if self.sharing == "none":  # written so that other formats can express it too
            object.__setattr__(self, "num_groups", self.num_layers)
            object.__setattr__(self, "sharing", "all")

    def to_json(self) -> dict[str, Any]:
        """Works as in `AttentionConfig`. `sharing` is left out if it is "all", for compatibility with folders from before the
        field."""
        values = super().to_json()
        if self.sharing == "all":
            del values["sharing"]
        return values

    @classmethod
    def from_json(cls, values, source="config.json", spelled=NOTHING):
        """Works as in `AttentionConfig`. If only half of a block is shared, all passes share it, so there may be no further
        groups."""
        config = super().from_json(values, source, spelled)
        if config.sharing != "all" and (config.num_groups, config.num_inner_layers) != (1, 1):
            raise CheckpointError(
                f"{source}: `sharing` = {config.sharing!r} goes with `num_groups` = `num_inner_layers` = 1. Found: "
                f"{config.num_groups} and {config.num_inner_layers}."
            )
        return config

    @property
    def num_unlike_groups(self) -> int:
        """The number of groups that differ in some weight."""
        return self.num_groups if self.sharing == "all" else self.num_layers

    @property
    def shared_half(self) -> tuple[str, str]:
        """The attributes of a block that all blocks share, if `sharing` is "attention" or "feedforward"."""
        return HALVES[self.sharing]

    @property
    def has_projection(self) -> bool:
        return self.force_projection or self.embedding_dim != self.hidden_dim


@keras.saving.register_keras_serializable("xmodels")
class Albert(Backbone):
    """An encoder that applies the same few blocks repeatedly to a narrow sum of token, segment and position embeddings.

    Call arguments:
        features: `token_ids` int (B, L), `segment_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens.
            Packed rows of up to K examples also have `pack_ids` and `position_ids` int (B, L) and `pack_starts` int (B, K).
        visible: a `Visible`, which tokens a token attends to; by default all real tokens, in packed rows those of its example.

    Returns:
        A dictionary of `sequence_output` (B, L, D) and `pooled_output` (B, D), tanh(Dense) of the state of the first token; for
        packed rows (B, K, D), of the first token of each example.
    """

    config_class = AlbertConfig
    mixer_must_support = frozenset({"padding"})
    reads = {**Backbone.reads, "segment_ids": Feature((None,))}
    may_read = {"pack_ids": Feature((None,)), "position_ids": Feature((None,)), "pack_starts": Feature((None,))}

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = SumEmbedding(config, name="embedding")
        if config.has_projection:
            self.embedding_projection = dense(config, None, "embedding_projection")
        shared: dict = {}
        first = Group(config, shared, name="group_0")
        half = None if config.sharing == "all" else first
        others = range(1, config.num_unlike_groups)
        self.groups = [first, *(Group(config, shared, half, name=f"group_{index}") for index in others)]
        self.pooler = dense(config, "tanh", "pooler")

    @property
    def passes(self) -> list["Group"]:
        """The groups in the order in which they are applied, `num_layers` of them."""
        count, passes = len(self.groups), self.config.num_layers
        return [self.groups[index * count // passes] for index in range(passes)]

    @property
    def applied_blocks(self) -> list:
        """The blocks of all passes in the order in which they are applied."""
        return [block for group in self.passes for block in group.blocks]

    def embed(self, features, training=None):
        """Returns the projected embeddings, (B, L, D)."""
        ids = (features[name] for name in ("token_ids", "segment_ids"))
        x = self.embedding(*ids, features.get("position_ids"), training=training)  # (B, L, E)
        return self.embedding_projection(x) if self.config.has_projection else x

    def call(self, features, visible=None, training=None):
        pack_ids = features.get("pack_ids")
        visible = default_visible(features) if visible is None else visible
        x = self.embed(features, training)  # (B, L, D)
        for group in self.passes:
            x = group(x, visible=visible, training=training)
        first = x[:, 0]  # (B, D)
        if pack_ids is not None:
            first = take_rows(x, features["pack_starts"])  # (B, K, D)
        return {"sequence_output": x, "pooled_output": self.pooler(first)}

    def summarize(self, features, training=None):
        """Returns only the `pooled_output` of a call. The last block is computed for the first token only."""
        if "pack_ids" in features:
            return self(features, training=training)
        visible = Visible(features["padding_mask"])
        *before, last = self.applied_blocks
        x = self.embed(features, training)
        for block in before:
            x = block(x, visible=visible, training=training)
        first = last(x[:, :1], visible=visible, context=x, training=training)  # (B, 1, D)
        return {"pooled_output": self.pooler(first[:, 0])}

    def hidden_states(self, features, training=None):
        """Returns the input of the first block and the output of every block, (B, L, D) each."""
        visible = default_visible(features)
        states = [self.embed(features, training)]
        for block in self.applied_blocks:
            states.append(block(states[-1], visible=visible, training=training))
        return states

    def attention_maps(self, features):
        """Returns the attention probabilities of every block, float32 (B, H, L, L) each."""
        return attention_maps(self.applied_blocks, self.hidden_states(features), default_visible(features))

    def attention_scores(self, features, states):
        return attention_scores(self.applied_blocks, states, default_visible(features))


class Group(Layer):
    """Blocks applied one after another. Call arguments and result as those of a block.

    Args:
        shared: layers that the mixers of several blocks use.
        first: the group with which it shares the half of its blocks that `config.sharing` names; None if it shares nothing.
    """

    def __init__(self, config: AlbertConfig, shared: dict, first: "Group | None" = None, **kwargs):
        super().__init__(**kwargs)

        def half(index):
            return {name: getattr(first.blocks[index], name) for name in config.shared_half} if first else {}

        inner = range(config.num_inner_layers)
        self.blocks = [
            post_norm_block(config, index, Albert.mixer_must_support, shared, **half(index)) for index in inner
        ]

    def call(self, x, visible=None, training=None):
        for block in self.blocks:
            x = block(x, visible=visible, training=training)
        return x  # (B, L, D)


def dense(config: AlbertConfig, activation: str | None, name: str) -> keras.layers.Dense:
    initializer = truncated_normal(config.initializer_stddev)
    return keras.layers.Dense(config.hidden_dim, activation, kernel_initializer=initializer, name=name)


def _size(num_layers, hidden_dim, num_heads, dropout):
    return {
        "num_layers": num_layers,
        "hidden_dim": hidden_dim,
        "num_heads": num_heads,
        "intermediate_dim": 4 * hidden_dim,
        "dropout": dropout,
        "attention_dropout": dropout,
    }


# tiny and mini are ours, with the shapes of the small BERTs, for trials. The others: table 1 of the paper, with heads of width 64;
# version 2 was trained without dropout. The released configurations of xlarge have 16 heads: as many parameters, but another
# function.
SIZES = {
    "tiny": {**_size(2, 128, 2, 0.1), "embedding_dim": 64},
    "mini": _size(4, 256, 4, 0.1),
    "base": _size(12, 768, 12, 0.1),
    "large": _size(24, 1024, 16, 0.1),
    "xlarge": _size(24, 2048, 32, 0.1),
    "xxlarge": _size(12, 4096, 64, 0.0),
    "base_v2": _size(12, 768, 12, 0.0),
    "large_v2": _size(24, 1024, 16, 0.0),
    "xlarge_v2": _size(24, 2048, 16, 0.0),
    "xxlarge_v2": _size(12, 4096, 64, 0.0),
}
