"""TextCNN over complex words, with complex filters (Wang et al., 2020, ICLR, section 4)."""

import dataclasses

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from xmodels.layers.complex_layers import ComplexTokenWindows
from xmodels.models.backbone import Backbone
from xmodels.models.complex_fasttext import ComplexFastTextConfig, words_of
from xmodels.models.config import NOTHING


@dataclasses.dataclass(frozen=True)
class ComplexTextCnnConfig(ComplexFastTextConfig):
    """As `TextCnnConfig`: `hidden_dim` counts both parts of the filters of all `kernel_sizes`, the same number of each, and
    `embedding_dim` the complex numbers of a word. Words as in `ComplexFastTextConfig`."""

    embedding_dim: int = 300
    kernel_sizes: tuple[int, ...] = (3, 4, 5)
    dropout: float = 0.5

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        if not self.kernel_sizes or self.hidden_dim % (2 * len(self.kernel_sizes)):
            raise CheckpointError(
                f"{source}: `hidden_dim` must be a multiple of twice the number of `kernel_sizes`, for real and imaginary parts of as "
                f"many filters of each. Found: {self.hidden_dim} and {list(self.kernel_sizes)}."
            )


@keras.saving.register_keras_serializable("xmodels")
class ComplexTextCnn(Backbone):
    """Concatenated complex convolutions with kernels of several sizes.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L).

    Returns:
        A dictionary of `sequence_output` (B, L, D), the features of the windows around each token, real parts before imaginary ones
        for each size, zeros at padding; and `pooled_output` (B, D), the maximum of each part over the windows inside the text.
    """

    config_class = ComplexTextCnnConfig
    from_labels = True
    any_length = True

    def __init__(self, config: ComplexTextCnnConfig, **kwargs):
        super().__init__(config, **kwargs)
        filters = config.hidden_dim // (2 * len(config.kernel_sizes))
        self.words = words_of(config, config.embedding_dim)
        self.windows = [ComplexTokenWindows(filters, width, name=f"width_{width}") for width in config.kernel_sizes]

    def call(self, features, training=None):
        real = ops.cast(features["padding_mask"], "bool")
        x = self.words(features["token_ids"], real)  # (B, L, 2 E)
        states, pooled = zip(*(windows(x, real) for windows in self.windows), strict=True)
        states = ops.concatenate(states, axis=-1) * ops.expand_dims(ops.cast(real, x.dtype), -1)  # (B, L, D)
        return {"sequence_output": states, "pooled_output": ops.concatenate(pooled, axis=-1)}


# base: the authors' code, 128 filters of each size; tiny is ours.
SIZES = {
    "tiny": {"hidden_dim": 96, "embedding_dim": 32, "dropout": 0.1},
    "base": {"hidden_dim": 2 * 3 * 128, "embedding_dim": 300},
}
