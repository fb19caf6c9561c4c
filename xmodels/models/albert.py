"""ALBERT: A Lite BERT for Self-supervised Learning of Language Representations (Lan et al., 2019, arXiv 1909.11942)."""

import dataclasses
from typing import Any, ClassVar

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from data_pipelines.features import Feature
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import attention_maps
from xmodels.layers.embeddings import SumEmbedding
from xmodels.layers.initialization import truncated_normal
from xmodels.layers.layer import Layer
from xmodels.models.backbone import NOTHING, Backbone
from xmodels.models.bert import default_visible, post_norm_block
from xmodels.models.mixing import MixerConfig

HALVES = {"attention": ("mixer", "mixer_norm"), "feedforward": ("feedforward", "feedforward_norm")}  # of a block


@dataclasses.dataclass(frozen=True)
class AlbertConfig(MixerConfig):
    """`num_layers` passes are made through `num_groups` groups of `num_inner_layers` blocks with weights of their own.

    Attributes:
        sharing: what passes share (section 3.1): "all", within their group; "attention" alone, of all passes, with its norm; the
            "feedforward" layer alone with its norm; "none", which is the same as `num_groups` = `num_layers`.
        embedding_dim: the width of the tables, which a projection brings to `hidden_dim`.
        force_projection: project also where the two widths are equal, as Hugging Face's networks do and Google's do not.
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
        if self.sharing == "none":  # what other formats can say too
            object.__setattr__(self, "num_groups", self.num_layers)
            object.__setattr__(self, "sharing", "all")

    def to_json(self) -> dict[str, Any]:
        """A configuration that shares all is written without the field, as before there was a choice."""
        values = super().to_json()
        if self.sharing == "all":
            del values["sharing"]
        return values

    @classmethod
    def from_json(cls, values, source="config.json", spelled=NOTHING):
        """See `ModelConfig`. Halves of blocks are shared by all passes, so there are no groups then."""
        config = super().from_json(values, source, spelled)
        if config.sharing != "all" and (config.num_groups, config.num_inner_layers) != (1, 1):
            raise CheckpointError(
                f"{source}: `sharing` = {config.sharing!r} goes with `num_groups` = `num_inner_layers` = 1. Found: "
                f"{config.num_groups} and {config.num_inner_layers}."
            )
        return config

    @property
    def num_unlike_groups(self) -> int:
        """Groups that are not the same in all."""
        return self.num_groups if self.sharing == "all" else self.num_layers

    @property
    def shared_half(self) -> tuple[str, str]:
        """The parts that all blocks share, where that is half of a block."""
        return HALVES[self.sharing]

    @property
    def has_projection(self) -> bool:
        return self.force_projection or self.embedding_dim != self.hidden_dim


@keras.saving.register_keras_serializable("xmodels")
class Albert(Backbone):
    """Passes through the same few blocks, over a narrow sum of token, segment and position embeddings.

    Call arguments:
        features: `token_ids` int (B, L), `segment_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens.
            Rows of up to K examples also bring `pack_ids` and `position_ids` int (B, L) and `pack_starts` int (B, K).
        visible: what a token may see; by default every real token, of rows of several examples those of its own.

    Returns:
        `sequence_output` (B, L, D) and `pooled_output` (B, D): tanh(Dense) of the first token's state; of
        rows of several examples (B, K, D), of the first token of each.
    """

    config_class = AlbertConfig
    mixer_must_honour = frozenset({"padding", "packs"})
    reads = {**Backbone.reads, "segment_ids": Feature((None,))}
    may_read = {"pack_ids": Feature((None,)), "position_ids": Feature((None,)), "pack_starts": Feature((None,))}

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = SumEmbedding(config, name="embedding")
        if config.has_projection:
            self.embedding_projection = dense(config, None, "embedding_projection")
        first = Group(config, name="group_0")
        shared = None if config.sharing == "all" else first
        others = range(1, config.num_unlike_groups)
        self.groups = [first, *(Group(config, shared, name=f"group_{index}") for index in others)]
        self.pooler = dense(config, "tanh", "pooler")

    @property
    def passes(self) -> list["Group"]:
        """The groups in the order in which they are applied: num_layers of them."""
        count, passes = len(self.groups), self.config.num_layers
        return [self.groups[index * count // passes] for index in range(passes)]

    @property
    def applied_blocks(self) -> list:
        """The blocks of all passes in the order in which they are applied."""
        return [block for group in self.passes for block in group.blocks]

    def embed(self, features, training=None):
        """(B, L, D)"""
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
            first = ops.take_along_axis(x, ops.expand_dims(features["pack_starts"], -1), axis=1)  # (B, K, D)
        return {"sequence_output": x, "pooled_output": self.pooler(first)}

    def summarize(self, features, training=None):
        """`pooled_output` alone, as of a call: of the last block, nothing is computed that only other tokens need."""
        if "pack_ids" in features:
            return self(features, training=training)
        visible = Visible(features["padding_mask"])
        *before, last = self.applied_blocks
        x = self.embed(features, training)
        for block in before:
            x = block(x, visible=visible, training=training)
        first = last(x[:, :1], visible=visible, context=x, training=training)  # (B, 1, D)
        return {"pooled_output": self.pooler(first[:, 0])}

    def hidden_states(self, features):
        """What enters the first block, and the output of every block: tensors (B, L, D)."""
        visible = default_visible(features)
        states = [self.embed(features)]
        for block in self.applied_blocks:
            states.append(block(states[-1], visible=visible))
        return states

    def attention_maps(self, features):
        """How much each token takes of each in every block: tensors (B, H, L, L)."""
        return attention_maps(self.applied_blocks, self.hidden_states(features), default_visible(features))


class Group(Layer):
    """Blocks applied one after another; arguments and result are those of a block.

    Args:
        first: the group with which it shares the half of its block that `config.sharing` names; None where all weights are its own.
    """

    def __init__(self, config: AlbertConfig, first: "Group | None" = None, **kwargs):
        super().__init__(**kwargs)

        def shared(index):
            return {name: getattr(first.blocks[index], name) for name in config.shared_half} if first else {}

        inner = range(config.num_inner_layers)
        self.blocks = [post_norm_block(config, index, Albert.mixer_must_honour, **shared(index)) for index in inner]

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


# tiny and mini are ours, of the shape of the small BERTs, for trials. The others: table 1 of the paper, with heads of 64; version 2
# was trained without dropout. The released configurations of xlarge have 16 heads, which changes no count of parameters, but
# what they compute.
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
