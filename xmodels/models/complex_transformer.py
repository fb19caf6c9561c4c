"""A Transformer's encoder over complex words, which needs no other encoding of positions (Wang et al., 2020, ICLR, section 4)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import PostNormBlock
from xmodels.layers.complex_layers import ComplexAttention, ComplexFeedForward, ComplexNorm
from xmodels.layers.complex_words import SHARING
from xmodels.layers.dropout import Dropout
from xmodels.layers.pooling import mean_state
from xmodels.models.backbone import Backbone
from xmodels.models.complex_fasttext import words_of
from xmodels.models.config import NOTHING, AttentionConfig


@dataclasses.dataclass(frozen=True)
class ComplexTransformerConfig(AttentionConfig):
    """`hidden_dim` and `intermediate_dim` count both parts of complex numbers. Words as in `ComplexFastTextConfig`.

    Attributes:
        conjugate_keys: whether scores are Hermitian products, which see distances; the paper's are not.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {**AttentionConfig.choices, "frequency_sharing": SHARING}
    frequency_sharing: str = "none"
    learned_phase: bool = False
    conjugate_keys: bool = False

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        if self.hidden_dim % (2 * self.num_heads) or self.intermediate_dim % 2:
            raise CheckpointError(
                f"{source}: `hidden_dim` must be a multiple of twice `num_heads`, and `intermediate_dim` even, for real and imaginary "
                f"parts. Found: {self.hidden_dim}, {self.num_heads} and {self.intermediate_dim}."
            )


@keras.saving.register_keras_serializable("xmodels")
class ComplexTransformer(Backbone):
    """Blocks of complex attention and complex feed-forward layers, normalised after each sum.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L).

    Returns:
        A dictionary of `sequence_output` (B, L, D), real parts before imaginary ones, zeros at padding, and `pooled_output` (B, D),
        their mean over the real tokens.
    """

    config_class = ComplexTransformerConfig
    from_labels = True

    def __init__(self, config: ComplexTransformerConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.words, self.dropout = words_of(config, config.hidden_dim // 2), Dropout(config.dropout)
        self.blocks = [self.make_block(config, index) for index in range(config.num_layers)]

    def make_block(self, config, index: int) -> PostNormBlock:
        units = config.hidden_dim // 2
        return PostNormBlock(
            ComplexAttention(config.num_heads, units, config.conjugate_keys, config.dropout, name="mixer"),
            ComplexFeedForward(config.intermediate_dim // 2, units, name="feedforward"),
            config.dropout,
            mixer_norm=ComplexNorm(name="mixer_norm"),
            feedforward_norm=ComplexNorm(name="feedforward_norm"),
            name=f"block_{index}",
        )

    def call(self, features, visible=None, training=None):
        real = ops.cast(features["padding_mask"], "bool")
        x = self.dropout(self.words(features["token_ids"], real), training=training)  # (B, L, D)
        for block in self.blocks:
            x = block(x, visible=visible or Visible(real), training=training)
        x = x * ops.expand_dims(ops.cast(real, x.dtype), -1)
        return {"sequence_output": x, "pooled_output": mean_state(x, real)}


def size(hidden_dim: int, num_layers: int, num_heads: int, dropout: float) -> dict:
    return {
        "hidden_dim": hidden_dim, "num_layers": num_layers, "num_heads": num_heads, "intermediate_dim": 4 * hidden_dim,
        "dropout": dropout,
    }  # fmt: skip


# Both are ours; base has as many complex numbers in a word as the authors' network for text8 has in a state.
SIZES = {"tiny": size(128, 2, 4, 0.1), "base": size(1024, 6, 8, 0.1)}
