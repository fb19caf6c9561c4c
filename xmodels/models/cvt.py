"""The CNN-BiLSTM encoder of Cross-View Training (Clark et al., 2018, arXiv 1809.08370, section 3.1; `cvt_text` of tensorflow/models),
trained on labelled texts from random weights."""

import dataclasses

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from data_pipelines.features import CHARACTERS, Feature
from xmodels.layers.character_filters import CharacterFilters
from xmodels.layers.dropout import Dropout
from xmodels.layers.embeddings import word_vectors
from xmodels.layers.layer import Layer
from xmodels.layers.pooling import max_state
from xmodels.layers.projected_lstm import ProjectedLstm
from xmodels.layers.recurrent import reversal, reverse_in_time
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING, TokenConfig

NUM_CHARACTERS = 262  # no word, the bytes, and what marks words and sentences (`data_pipelines.units.characters`)
PARTS = 4  # of a state: two layers of two directions
NO_LIMIT = float("inf")


@dataclasses.dataclass(frozen=True)
class CvtConfig(TokenConfig):
    """Sizes of the network; those of the released code are in parentheses. Texts may have any length.

    Attributes:
        hidden_dim: the width of both directions of both layers together (2,048).
        embedding_dim: the width of word vectors (300).
        character_dim: the width of the embedding of a character (50).
        filter_widths, num_filters: of the convolutions over the characters of a word (2, 3 and 4, of 100 each).
        cell_dim, second_cell_dim: cells of each direction of the first layer (1,024) and of the second (512).
        dropout: of word vectors, characters and the states of both layers (0.5).
        unlabelled_dropout: the same for texts without labels (0.2).
    """

    embedding_dim: int = 300
    character_dim: int = 50
    filter_widths: tuple[int, ...] = (2, 3, 4)
    num_filters: tuple[int, ...] = (100, 100, 100)
    cell_dim: int = 1024
    second_cell_dim: int = 512
    dropout: float = 0.5
    unlabelled_dropout: float = 0.2

    @property
    def output_dim(self) -> int:
        """The width of one direction of a layer, which is also that of the hidden layers of prediction modules (512)."""
        return self.hidden_dim // PARTS

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `TokenConfig`; seven numbers per dimension of a cell and three of an output, and for each character the
        filters that see it."""
        recurrent = 2 * (7 * (self.cell_dim + self.second_cell_dim) + 6 * self.output_dim)
        return 4 * (recurrent + 3 * self.embedding_dim + CHARACTERS * (self.character_dim + sum(self.num_filters)))

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        self._check_table("cell_dim", "hidden_dim", source, spelled)
        self._check_table("second_cell_dim", "hidden_dim", source, spelled)
        if self.hidden_dim % PARTS:
            raise CheckpointError(
                f"{source}: `hidden_dim` must be a multiple of {PARTS}, for two directions of two layers. Found: {self.hidden_dim}."
            )
        self._check_filters(source)


class ScaledVectors(Layer):
    """A table of word vectors, multiplied by one number that is learnt and begins at 1.

    Call arguments:
        token_ids: int (B, L).

    Returns:
        (B, L, E)
    """

    def __init__(self, vocabulary_size: int, embedding_dim: int, **kwargs):
        super().__init__(**kwargs)
        self.token = word_vectors(vocabulary_size, embedding_dim, name="token")
        self.scale = self.add_weight(shape=(1,), initializer="ones", name="scale")

    def call(self, token_ids):
        x = self.token(token_ids)
        return x * ops.cast(self.scale, x.dtype)


class BothDirections(Layer):
    """Two LSTMs with projections, one of which reads from right to left, from the last real word on.

    Call arguments:
        x: (B, L, E).
        padding_mask: bool (B, L), padded on the right.

    Returns:
        The outputs of both directions, (B, L, P) each, zeros at padding.
    """

    def __init__(self, cell_dim: int, output_dim: int, **kwargs):
        super().__init__(**kwargs)
        sizes = cell_dim, output_dim, NO_LIMIT, NO_LIMIT
        self.ahead, self.behind = ProjectedLstm(*sizes, name="ahead"), ProjectedLstm(*sizes, name="behind")
        self.state_dim = cell_dim + output_dim

    def call(self, x, padding_mask):
        order, state = reversal(padding_mask), ops.zeros((ops.shape(x)[0], self.state_dim), x.dtype)
        ahead, _ = self.ahead(x, state)
        behind, _ = self.behind(reverse_in_time(x, order), state)
        real = ops.expand_dims(ops.cast(padding_mask, ahead.dtype), -1)
        return ahead * real, reverse_in_time(behind, order) * real


@keras.saving.register_keras_serializable("xmodels")
class Cvt(Backbone):
    """Word vectors and filters over characters, below two bidirectional LSTMs.

    The directions of the first layer know one side of a text each. Prediction modules that see one of them see less of the text than
    one that sees both layers, which is what Cross-View Training rests on.

    Call arguments:
        features: `token_ids` int (B, L), `character_ids` int (B, L, 50), `padding_mask` bool (B, L), padded on the right.

    Returns:
        A dictionary of `sequence_output` (B, L, D), both layers side by side, zeros at padding, and `pooled_output` (B, D), the
        maximum over the real words.
    """

    config_class = CvtConfig
    from_labels = True
    any_length = True
    reads = Backbone.reads | {"character_ids": Feature((None, CHARACTERS))}
    # A mark stands on either side of a text. Numbers of the released code, whose 5,000 steps of warm-up are of 200,000.
    read_as = {
        "frame": "[CLS] A [SEP] ([CLS] B [SEP])",
        "head_dropout": 0.0,
        "numbers": {
            "learning_rate": 0.5, "warmup_proportion": 0.025, "optimizer": "sgd", "momentum": 0.9, "lr_schedule": "root_decay",
            "clip_norm": 1.0, "ema_decay": 0.998,
        },
    }  # fmt: skip

    def __init__(self, config: CvtConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = ScaledVectors(config.vocabulary_size, config.embedding_dim, name="embedding")
        self.characters = CharacterFilters(
            NUM_CHARACTERS, config.character_dim, config.filter_widths, config.num_filters, name="characters"
        )
        self.first = BothDirections(config.cell_dim, config.output_dim, name="first")
        self.second = BothDirections(config.second_cell_dim, config.output_dim, name="second")
        self.dropout, self.unlabelled_dropout = Dropout(config.dropout), Dropout(config.unlabelled_dropout)

    def call(self, features, training=None):
        states = self.views(features, training=training)["full"]  # (B, L, D)
        return {
            "sequence_output": states,
            "pooled_output": max_state(states, ops.cast(features["padding_mask"], "bool")),
        }

    def views(self, features, training=None, labelled=True) -> dict:
        """Returns what parts of the network know of each word: {name: (B, L, ...)}.

        Args:
            features: as of a call.
            labelled: whether the texts have labels, so that more is dropped while training.

        Returns:
            `forward` and `backward` (B, L, P): of the first layer, of the words up to each one, and from each one on; `full`
            (B, L, D): of all words.
        """
        drop, real = self.dropout if labelled else self.unlabelled_dropout, ops.cast(features["padding_mask"], "bool")
        words = drop(self.embedding(features["token_ids"]), training=training)  # (B, L, E)
        characters = drop(self.characters(features["character_ids"]), training=training)  # (B, L, F)
        ahead, behind = (
            drop(x, training=training) for x in self.first(ops.concatenate([words, characters], axis=-1), real)
        )
        both = ops.concatenate([ahead, behind], axis=-1)  # (B, L, 2 * P)
        above = (drop(x, training=training) for x in self.second(both, real))
        return {"forward": ahead, "backward": behind, "full": ops.concatenate([both, *above], axis=-1)}


def _size(output_dim, cell_dim, second_cell_dim, embedding_dim=300, character_dim=50, num_filters=100):
    return {
        "hidden_dim": PARTS * output_dim, "cell_dim": cell_dim, "second_cell_dim": second_cell_dim, "embedding_dim": embedding_dim,
        "character_dim": character_dim, "num_filters": (num_filters,) * 3,
    }  # fmt: skip


# `base` is the released configuration, `large` that of the paper's largest network; tiny and small are ours.
SIZES = {
    "tiny": _size(32, 64, 32, 50, 16, 16),
    "small": _size(64, 128, 64, 100, 25, 32),
    "base": _size(512, 1024, 512),
    "large": _size(1024, 4096, 2048),
}
