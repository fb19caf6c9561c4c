"""Set Transformer: networks of sets of vectors (Lee et al., 2019, arXiv 1810.00825). It reads no tokens."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.dropout import Dropout
from xmodels.layers.set_attention import (
    InducedSetAttention,
    PaperSetAttentionBlock,
    SeedPooling,
    SelfAttentionOfSet,
    SetAttentionBlock,
)
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING, Config

CODE, PAPER = "code", "paper"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetTransformerConfig(Config):
    """The sizes of a Set Transformer. It has no vocabulary, no positions that could run out, and feed-forward layers of its own width.

    Fields:
        input_dim: width of a vector of a set.
        num_layers, num_decoder_layers: blocks before and behind the pooling.
        num_inducing: inducing points of the blocks before it; 0: elements look at each other, which takes the square of their number.
        num_seeds: vectors that a set is pooled to.
        form: of a block: `code`, as in the released code, or `paper`, as in equations 6 and 7.
        normalize: whether blocks of the form `code` have layer normalisations, as those of the paper do.
        dropout: before and behind the pooling.
    """

    choices: ClassVar[dict] = {"form": (CODE, PAPER)}
    bounds: ClassVar[dict] = {"num_inducing": (0, 10_000), "num_decoder_layers": (0, 1_000), "num_seeds": (1, 10_000)}

    hidden_dim: int = 128
    num_layers: int = 2
    num_heads: int = 4
    dropout: float = 0.0
    input_dim: int
    num_inducing: int = 32
    num_seeds: int = 1
    num_decoder_layers: int = 2
    form: str = CODE
    normalize: bool = False

    def keys_per_query(self, length: int) -> int:
        """Returns the number of elements or points that each element is compared with."""
        return self.num_inducing or length

    def kept_bytes(self, length: int, rematerialize: bool = False) -> int:
        """Works as in `AttentionConfig`, per element of a set; 35 bytes for each of `hidden_dim`, of a feed-forward layer too."""
        element = 35 * self.hidden_dim + 9 * self.num_heads * self.keys_per_query(length)
        return element + 4 * self.num_layers * self.hidden_dim if rematerialize else self.num_layers * element

    def check(self, source, spelled=NOTHING):
        self._check_table("input_dim", "hidden_dim", source, spelled)
        self._check_table("hidden_dim", "hidden_dim", source, spelled)
        self._check_table("num_inducing", "hidden_dim", source, spelled)
        self._check_heads(source, spelled)


@keras.saving.register_keras_serializable("xmodels")
class SetTransformer(Backbone):
    """Blocks on the elements of a set, a pooling by trained seeds, and blocks on what is pooled.

    Call arguments:
        features: `points` float (B, L, D_x), the vectors of sets; `padding_mask` bool (B, L), True on those that exist.

    Returns:
        A dictionary of `sequence_output` (B, L, D) of the elements before the pooling; `seed_output` (B, K, D), which no order of
        the elements changes; and `pooled_output` (B, K D), the same as one vector.
    """

    config_class = SetTransformerConfig
    any_length = True
    reads = {"points": Feature((None, None), "float32"), "padding_mask": Feature((None,), "bool")}

    def __init__(self, config: SetTransformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        dim, paper = config.hidden_dim, config.form == PAPER
        self.project = keras.layers.Dense(dim, name="project") if paper else None  # whose blocks keep their width
        self.blocks = [self.make_block(config, f"block_{index}") for index in range(config.num_layers)]
        feedforward = keras.layers.Dense(dim, "relu", name="feedforward") if paper else None
        self.pooling = SeedPooling(make_attention(config, "pooling_block"), config.num_seeds, dim, feedforward)
        self.decoder_blocks = [
            SelfAttentionOfSet(make_attention(config, f"decoder_{index}")) for index in range(config.num_decoder_layers)
        ]
        self.before, self.behind = Dropout(config.dropout), Dropout(config.dropout)

    def make_block(self, config, name):
        """Returns the block of a layer before the pooling."""
        if not config.num_inducing:
            return SelfAttentionOfSet(make_attention(config, name))
        ends = (make_attention(config, f"{name}_{end}") for end in ("inward", "outward"))
        return InducedSetAttention(*ends, config.num_inducing, config.hidden_dim)

    def call(self, features, training=None):
        mask = ops.cast(features["padding_mask"], "bool")  # (B, L)
        x = ops.cast(features["points"], self.compute_dtype)  # (B, L, D_x)
        x = x if self.project is None else self.project(x)
        for block in self.blocks:
            x = block(x, key_mask=mask, training=training)  # (B, L, D)
        seeds = self.pooling(self.before(x, training=training), key_mask=mask, training=training)  # (B, K, D)
        seeds = self.behind(seeds, training=training)
        for block in self.decoder_blocks:
            seeds = block(seeds, training=training)
        pooled = ops.reshape(seeds, (-1, self.config.num_seeds * self.config.hidden_dim))
        return {"sequence_output": x, "seed_output": seeds, "pooled_output": pooled}

    def tiny_batch(self):
        return {"points": ops.ones((1, 2, self.config.input_dim)), "padding_mask": ops.ones((1, 2), "bool")}


def make_attention(config: SetTransformerConfig, name: str) -> keras.layers.Layer:
    """Returns a multihead attention block of a configuration."""
    if config.form == PAPER:
        return PaperSetAttentionBlock(config.hidden_dim, config.num_heads, name=name)
    return SetAttentionBlock(config.hidden_dim, config.num_heads, config.normalize, name=name)


# base: of the experiments with mixtures (section 5.3 and the released code); point_cloud: of ModelNet40; tiny is ours.
SIZES = {
    "base": {"hidden_dim": 128, "num_heads": 4, "num_inducing": 32},
    "tiny": {"hidden_dim": 32, "num_heads": 4, "num_inducing": 8, "num_decoder_layers": 1},
    "point_cloud": {
        "hidden_dim": 256, "num_heads": 4, "num_inducing": 16, "num_decoder_layers": 0, "dropout": 0.5,
    },
}  # fmt: skip
