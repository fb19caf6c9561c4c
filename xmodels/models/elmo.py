"""ELMo: two stacks of LSTMs, one for each direction, over words that are made of their characters (Peters et al., 2018, arXiv
1802.05365; allenai/bilm-tf)."""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from data_pipelines.features import CHARACTERS, Feature
from xmodels.layers.character_words import CharacterWords
from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.projected_lstm import ProjectedLstm
from xmodels.layers.recurrent import reversal, reverse_in_time
from xmodels.models.backbone import Backbone
from xmodels.models.config import NOTHING, LayersConfig

NUM_CHARACTERS = 262  # no word, the bytes, and what marks words and sentences (`data_pipelines.units.characters`)
NUM_DIRECTIONS = 2


@dataclasses.dataclass(frozen=True)
class ElmoConfig(LayersConfig):
    """Sizes of the network.

    `hidden_dim` is the width of both directions together, and `vocabulary_size` that of the softmax of pretraining only.

    Attributes:
        cell_dim: the width of the cell of each layer of a direction.
        character_dim: the width of the embedding of a character.
        filter_widths, num_filters: of the convolutions over the characters of a word.
        num_highway: highway layers behind them.
        activation: of the convolutions.
        cell_clip, output_clip: the largest absolute values in cells and outputs of the LSTMs.
        has_skips: whether the input of each layer but the first is added to its output.
        initial_scale: kernels of convolutions behind which a relu stands begin uniform between this number and its negative.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {
        "num_highway": (0, 1000), "cell_clip": (0, 1e6), "output_clip": (0, 1e6),
    }  # fmt: skip

    num_layers: int = 2
    cell_dim: int = 32
    character_dim: int = 4
    filter_widths: tuple[int, ...] = (1, 3)
    num_filters: tuple[int, ...] = (8, 16)
    num_highway: int = 1
    activation: str = "relu"
    cell_clip: float = 3.0
    output_clip: float = 3.0
    has_skips: bool = True
    initial_scale: float = 0.05

    def check(self, source, spelled=NOTHING):
        super().check(source, spelled)
        self._check_table("cell_dim", "hidden_dim", source, spelled)
        self._check_filters(source)
        if self.hidden_dim % NUM_DIRECTIONS:
            raise CheckpointError(f"{source}: `hidden_dim` must be even, for two directions. Found: {self.hidden_dim}.")

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `TokenConfig`; seven numbers per dimension of the cell and three of the output, of each layer and
        direction, and for each character the filters that see it."""
        recurrent = NUM_DIRECTIONS * self.num_layers * (7 * self.cell_dim + 3 * self.output_dim)
        return 4 * (recurrent + CHARACTERS * (self.character_dim + sum(self.num_filters)))

    @property
    def embedding_dim(self) -> int:
        """The width of the embedding of a character: words have none."""
        return self.character_dim

    @property
    def output_dim(self) -> int:
        """The width of a layer of one direction."""
        return self.hidden_dim // NUM_DIRECTIONS

    @property
    def state_dim(self) -> int:
        """The width of output and cell of a layer together, which are its state."""
        return self.output_dim + self.cell_dim


class Direction(Layer):
    """The LSTMs of one direction (section 3.1), with dropout on the input of each and on the last output.

    Call arguments:
        x: (B, L, P).
        state: float32 (B, num_layers, P + C), of each layer before the first step.
        real: bool (B, L), True where a step changes the state; None for all steps.

    Returns:
        The outputs of the layers, (B, L, P) each, and their states after the last step, float32 (B, num_layers, P + C).
    """

    def __init__(self, config: ElmoConfig, **kwargs):
        super().__init__(**kwargs)
        sizes = config.cell_dim, config.output_dim, config.cell_clip, config.output_clip
        self.recurrent_layers = [ProjectedLstm(*sizes, name=f"layer_{i}") for i in range(config.num_layers)]
        self.dropout, self.has_skips = Dropout(config.dropout), config.has_skips

    def call(self, x, state, real=None, training=None):
        outputs, states = [], []
        for i, layer in enumerate(self.recurrent_layers):
            y, last = layer(self.dropout(x, training=training), state[:, i], real=real)
            x = y + x if i and self.has_skips else y  # only what the next layer reads: the state is without the sum
            outputs.append(x)
            states.append(last)
        outputs[-1] = self.dropout(x, training=training)
        return outputs, ops.cast(ops.stack(states, axis=1), "float32")


@keras.saving.register_keras_serializable("xmodels")
class Elmo(Backbone):
    """A bidirectional language model. Texts begin and end with a mark of their own, which have a state as words have.

    Call arguments:
        features: `character_ids` int (B, L, 50), `padding_mask` bool (B, L), True on real words; padding is on the right. Of two
            streams, whose texts are the same but stand in `reversed_character_ids` (B, L, 50) from their last word on, the second
            direction reads the latter. `memory` float32 (B, 2, num_layers, P + C) is the state of both directions before the rows.

    Returns:
        A dictionary of `sequence_output` (B, L, 2 * P), both directions side by side, of each word, or of streams of each step; and
        if `memory` is given, `memory` after the last real word, without gradient.
    """

    config_class = ElmoConfig
    carries_memory = True
    any_length = True
    reads = {"character_ids": Feature((None, CHARACTERS)), "padding_mask": Feature((None,), "bool")}
    may_read = {"reversed_character_ids": Feature((None, CHARACTERS))}

    def __init__(self, config: ElmoConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = CharacterWords(
            NUM_CHARACTERS, config.character_dim, config.filter_widths, config.num_filters, config.num_highway,
            config.output_dim, config.activation, config.initial_scale, name="embedding",
        )  # fmt: skip
        self.ahead, self.behind = Direction(config, name="ahead"), Direction(config, name="behind")

    def initial_memory(self, batch_size: int, memory_length: int | None = None) -> dict:
        """Returns the feature `memory` for the beginning of texts. `memory_length` is ignored: a state has no length."""
        config = self.config
        shape = (batch_size, NUM_DIRECTIONS, config.num_layers, config.state_dim)
        return {"memory": ops.zeros(shape, "float32")}

    def call(self, features, training=None):
        layers, memory = self._run(features, training)
        outputs = {"sequence_output": layers[-1]}
        return {**outputs, "memory": ops.stop_gradient(memory)} if "memory" in features else outputs

    def hidden_states(self, features, training=None):
        """Returns the words, twice side by side, and each layer of both directions: num_layers + 1 tensors (B, L, 2 * P)."""
        return self._run(features, training)[0]

    def _run(self, features, training=False):
        characters, mask = features["character_ids"], ops.cast(features["padding_mask"], "bool")
        if "reversed_character_ids" in features:
            characters = ops.concatenate([characters, features["reversed_character_ids"]], axis=0)
            read, read_back = ops.split(self.embedding(characters), 2, axis=0)  # (B, L, P) each
            order = None
        else:
            read, order = self.embedding(characters), reversal(mask)  # (B, L, P), (B, L)
            read_back = reverse_in_time(read, order)
        begins = "memory" not in features
        memory = self.initial_memory(ops.shape(mask)[0])["memory"] if begins else features["memory"]
        # A state that goes on is that behind the last real word, so padding must not change it.
        held = None if begins else mask
        ahead, after = self.ahead(read, memory[:, 0], held, training=training)
        behind, before = self.behind(read_back, memory[:, 1], held, training=training)
        both = zip([read, *ahead], [read_back, *behind], strict=True)
        if order is None:
            layers = [ops.concatenate(pair, axis=-1) for pair in both]
        else:
            layers = [ops.concatenate([first, reverse_in_time(second, order)], axis=-1) for first, second in both]
        return layers, ops.stack([after, before], axis=1)


def _size(output_dim, cell_dim, num_highway, widths=range(1, 8), filters=(32, 32, 64, 128, 256, 512, 1024)):
    return {
        "hidden_dim": 2 * output_dim, "cell_dim": cell_dim, "num_highway": num_highway, "character_dim": 16,
        "filter_widths": tuple(widths), "num_filters": tuple(filters),
    }  # fmt: skip


# The published networks: small, medium, and original, which 5.5B equals. tiny is ours.
SIZES = {
    "tiny": _size(32, 128, 1, (1, 2, 3), (16, 16, 32)),
    "small": _size(128, 1024, 1),
    "medium": _size(256, 2048, 1),
    "base": _size(512, 4096, 2),
}
