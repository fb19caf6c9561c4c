"""context2vec: the vector of a place in a sentence, from what stands on both sides of it (Melamud et al., 2016, CoNLL)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.recurrent import LstmCell, Recurrent, reversal, reverse_in_time
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING, LayersConfig

DEEP, SHALLOW = "deep", "shallow"


@dataclasses.dataclass(frozen=True)
class Context2VecConfig(LayersConfig):
    """Sizes of the network; those of the paper are in parentheses. Texts may have any length.

    Attributes:
        hidden_dim: the width of the vectors of contexts and of the words that they predict (600).
        embedding_dim: the width of the words that are read, which have a vector for each direction (300).
        recurrent_dim: the width of an LSTM (600).
        num_layers: LSTMs of each direction (1).
        head: how both directions become a vector: "deep", by a layer of 2 x `recurrent_dim` with relu and a linear one (equation 2),
            or "shallow", by a linear layer for each, one half of the vector each.
        dropout: on what LSTMs and linear layers read.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {**LayersConfig.choices, "head": (DEEP, SHALLOW)}
    embedding_dim: int = 300
    recurrent_dim: int = 600
    head: str = DEEP
    dropout: float = 0.0

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `TokenConfig`; eight numbers per dimension and LSTM, those of the words and of the head."""
        recurrent = 16 * self.recurrent_dim * self.num_layers + 4 * self.embedding_dim
        return 4 * (recurrent + 6 * self.recurrent_dim + 6 * self.hidden_dim)

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        self._check_table("recurrent_dim", "recurrent_dim", source, spelled)


class Side(Layer):
    """What stands on one side of each place, read towards it: the state of an LSTM behind the last token before the place.

    Args:
        config: of the network.

    Call arguments:
        token_ids: int (B, L), in the order of reading.

    Returns:
        (B, L, R); zeros at the first place, which nothing stands before.
    """

    def __init__(self, config: Context2VecConfig, **kwargs):
        super().__init__(**kwargs)
        normal = keras.initializers.RandomNormal(stddev=config.vocabulary_size**-0.5)
        self.words = keras.layers.Embedding(config.vocabulary_size, config.embedding_dim, normal, name="words")
        self.recurrent_layers = [
            Recurrent(LstmCell(config.recurrent_dim, lecun()), lecun(), name=f"layer_{i}")
            for i in range(config.num_layers)
        ]
        self.dropout = Dropout(config.dropout)

    def call(self, token_ids, training=None):
        x = self.words(token_ids)  # (B, L, E)
        for layer in self.recurrent_layers:
            x = layer(self.dropout(x, training=training))  # (B, L, R)
        return ops.pad(x[:, :-1], [[0, 0], [1, 0], [0, 0]])


class DeepHead(Layer):
    """W2 relu(W1 [l; r] + b1) + b2 (equation 2): twice (B, L, R) -> (B, L, D)."""

    def __init__(self, config: Context2VecConfig, **kwargs):
        super().__init__(**kwargs)
        self.expand = keras.layers.Dense(2 * config.recurrent_dim, "relu", kernel_initializer=lecun(), name="expand")
        self.contract = keras.layers.Dense(config.hidden_dim, kernel_initializer=lecun(), name="contract")
        self.dropout = Dropout(config.dropout)

    def call(self, before, behind, training=None):
        x = ops.concatenate([before, behind], axis=-1)  # (B, L, 2 R)
        x = self.expand(self.dropout(x, training=training))
        return self.contract(self.dropout(x, training=training))


class ShallowHead(Layer):
    """[W_l l + b_l; W_r r + b_r], a half of the vector for each direction: twice (B, L, R) -> (B, L, D)."""

    def __init__(self, config: Context2VecConfig, **kwargs):
        super().__init__(**kwargs)
        half = config.hidden_dim // 2
        self.before = keras.layers.Dense(half, kernel_initializer=lecun(), name="before")
        self.behind = keras.layers.Dense(config.hidden_dim - half, kernel_initializer=lecun(), name="behind")
        self.dropout = Dropout(config.dropout)

    def call(self, before, behind, training=None):
        sides = (self.before, before), (self.behind, behind)
        return ops.concatenate([layer(self.dropout(x, training=training)) for layer, x in sides], axis=-1)


@keras.saving.register_keras_serializable("xmodels")
class Context2Vec(Backbone):
    """The vectors of contexts, and those of the words that fit into them, which are alike where word and context go together.

    A text stands between a mark of its beginning and one of its end, `[CLS] words [SEP]`. No vector of a context depends on the token
    at its own place.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), padded on the right.

    Returns:
        A dictionary of `sequence_output` (B, L, D), the vector of the context of each place; zeros at padding.
    """

    config_class = Context2VecConfig
    any_length = True
    fits_words = True  # `predict` names the words that fit a place

    def __init__(self, config: Context2VecConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.ahead, self.back = Side(config, name="ahead"), Side(config, name="back")
        self.head = (DeepHead if config.head == DEEP else ShallowHead)(config, name="head")
        # Zeros as in Chainer's `NegativeSampling`: at first all words fit alike, and the encoder learns from the second step on.
        self.targets = keras.layers.Embedding(config.vocabulary_size, config.hidden_dim, "zeros", name="targets")
        self.targets.build(None)

    @classmethod
    def word_vectors(cls, values):
        return values["backbone.targets.embeddings"]

    def call(self, features, training=None):
        token_ids, order = features["token_ids"], reversal(features["padding_mask"])  # (B, L)
        before = self.ahead(token_ids, training=training)  # (B, L, R)
        behind = self.back(ops.take_along_axis(token_ids, ops.cast(order, "int32"), axis=1), training=training)
        x = self.head(before, reverse_in_time(behind, order), training=training)  # (B, L, D)
        return {"sequence_output": x * ops.expand_dims(ops.cast(features["padding_mask"], x.dtype), -1)}

    def hidden_states(self, features, training=None):
        """Returns the vectors of the words themselves and those of their contexts, (B, L, D) each."""
        return [self.targets(features["token_ids"]), self(features, training=training)["sequence_output"]]


def lecun() -> keras.initializers.Initializer:
    """Returns the initializer of kernels, Chainer's."""
    return keras.initializers.LecunNormal()


def _size(unit: int) -> dict:
    return {"hidden_dim": 2 * unit, "embedding_dim": unit, "recurrent_dim": 2 * unit}


# `base` is the paper's; the others are ours.
SIZES = {"tiny": _size(32), "small": _size(100), "base": _size(300)}
