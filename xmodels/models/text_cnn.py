"""TextCNN: Convolutional Neural Networks for Sentence Classification (Kim, 2014, arXiv 1408.5882)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.convolution import TokenWindows
from xmodels.layers.embeddings import word_vectors
from xmodels.models.backbone import Backbone
from xmodels.models.config import TokenConfig


@dataclasses.dataclass(frozen=True)
class TextCnnConfig(TokenConfig):
    """`hidden_dim` is the number of filters of all `kernel_sizes` together, the same number of each. `dropout` is that of the head
    (section 2.1). Texts may have any length."""

    retired: ClassVar[frozenset[str]] = frozenset(
        {"num_layers", "num_heads", "intermediate_dim", "max_sequence_length"}
    )
    embedding_dim: int = 300
    kernel_sizes: tuple[int, ...] = (3, 4, 5)
    dropout: float = 0.5


@keras.saving.register_keras_serializable("xmodels")
class TextCnn(Backbone):
    """Concatenated convolutions with kernels of several sizes.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L).

    Returns:
        A dictionary of `sequence_output` (B, L, D), the features of the windows around each token, zeros at padding, and
        `pooled_output` (B, D), their maxima over the windows inside the text (equation 4), which the paper classifies.

    Raises:
        ValueError: `hidden_dim` is not a multiple of the number of `kernel_sizes`.
    """

    config_class = TextCnnConfig
    from_labels = True
    any_length = True

    def __init__(self, config: TextCnnConfig, **kwargs):
        super().__init__(config, **kwargs)
        if config.hidden_dim % len(config.kernel_sizes):
            raise ValueError(
                "`hidden_dim` must be a multiple of the number of `kernel_sizes`, so that each has as many filters. "
                f"Received: hidden_dim={config.hidden_dim}, kernel_sizes={config.kernel_sizes}."
            )
        filters = config.hidden_dim // len(config.kernel_sizes)
        self.embedding = word_vectors(config.vocabulary_size, config.embedding_dim, name="embedding")
        self.windows = [TokenWindows(filters, width, name=f"width_{width}") for width in config.kernel_sizes]

    def call(self, features, training=None):
        real = ops.cast(features["padding_mask"], "bool")
        x = self.embedding(features["token_ids"])  # (B, L, E)
        x = x * ops.expand_dims(ops.cast(real, x.dtype), -1)
        states, pooled = zip(*(windows(x, real) for windows in self.windows), strict=True)
        states = ops.concatenate(states, axis=-1) * ops.expand_dims(ops.cast(real, x.dtype), -1)  # (B, L, D)
        return {"sequence_output": states, "pooled_output": ops.concatenate(pooled, axis=-1)}


# base: the paper's, section 3.1; tiny is ours.
SIZES = {
    "tiny": {"hidden_dim": 96, "embedding_dim": 64, "dropout": 0.1},
    "base": {"hidden_dim": 300, "embedding_dim": 300},
}
