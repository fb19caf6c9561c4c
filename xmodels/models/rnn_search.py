"""RNNsearch: Neural Machine Translation by Jointly Learning to Align and Translate (Bahdanau et al., 2015, arXiv 1409.0473)."""

import dataclasses
from typing import Any, ClassVar

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers.attention.additive import bias_of
from xmodels.layers.attention.alignment import SCORES, alignment_of
from xmodels.layers.dropout import Dropout
from xmodels.layers.layer import Layer
from xmodels.layers.recurrent import Bidirectional, GruCell, Recurrent
from xmodels.models.backbone import Backbone
from xmodels.models.config import LONGEST_ROW, LayersConfig


@dataclasses.dataclass(frozen=True)
class RnnSearchConfig(LayersConfig):
    """Sizes of the network; those of the paper are in parentheses.

    Attributes:
        hidden_dim: the width of both directions of the encoder together (2 x 1000); the decoder has half of it.
        intermediate_dim: the width of the alignment model (1000).
        num_layers: layers of the encoder (1); the decoder has one.
        embedding_dim: the width of word vectors (620); None for `hidden_dim`.
        maxout_dim: the width of the maxout layer before the output (500).
        output_state: the state of the decoder that the output layer reads: "previous", s_{i-1}, as in the paper (appendix
            A.2.2), or "current", s_i, as in many implementations.
        score: how a state of the decoder is compared with those of the source: "additive", as in the paper, or another of
            `layers.attention.alignment.SCORES`.
        num_places: places of a source that the score "location" tells apart; those behind them are not seen.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **LayersConfig.choices, "output_state": ("previous", "current"), "score": SCORES
    }  # fmt: skip
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"num_places": (1, LONGEST_ROW)}
    retired: ClassVar[frozenset[str]] = frozenset({"num_heads", "max_sequence_length"})
    num_layers: int = 1
    intermediate_dim: int = 1000
    embedding_dim: int | None = None
    maxout_dim: int = 500
    output_state: str = "previous"
    dropout: float = 0.0
    score: str = "additive"
    num_places: int = 128

    def __post_init__(self):
        if self.embedding_dim is None:
            object.__setattr__(self, "embedding_dim", self.hidden_dim)

    def to_json(self) -> dict[str, Any]:
        """Works as in `LayersConfig`. What says nothing of additive attention is left out, for folders from before the fields."""
        values = super().to_json()
        if self.score != "location":
            del values["num_places"]
        if self.score == "additive":
            del values["score"]
        return values


class AttentiveGruCell(keras.layers.Layer):
    """One step of the decoder: attends to the source with the previous state, then updates the state with the context vector.

    Call arguments:
        gates: (B, 3 * D), the projection of the previous token.
        states: s (B, D), and the source, which does not change: its states (B, S, K), their keys (B, S, A), and the bias (B, S). A is
            the width of the keys, D of other scores than additive ones.

    Returns:
        The concatenation of the previous s, the new s, the context vector c_i and the attention weights, (B, 2 * D + K + S); and
        the new states.
    """

    num_gates = 3

    def __init__(self, config: RnnSearchConfig, **kwargs):
        super().__init__(**kwargs)
        hidden_dim, source_dim, align_dim = config.hidden_dim // 2, config.hidden_dim, config.intermediate_dim
        self.source_dim, self.output_size = source_dim, hidden_dim
        key_dim = align_dim if config.score == "additive" else hidden_dim
        self.state_size, self.bias_initializer = [hidden_dim, source_dim, key_dim, 1], "zeros"
        self.gru = GruCell(hidden_dim, name="gru")
        widths = hidden_dim, source_dim, align_dim
        self.attention = alignment_of(config.score, *widths, config.num_places, name="attention")
        self.context = keras.layers.Dense(3 * hidden_dim, use_bias=False, kernel_initializer=small(), name="context")

    def build(self, shape):
        self.gru.build(shape)
        self.context.build((None, self.source_dim))
        if not self.attention.built:
            self.attention.build()
        self.built = True

    def call(self, gates, states, training=None):
        s, source, keys, bias = states
        shares = ops.cast(self.attention(s, keys, bias), source.dtype)  # (B, S)
        found = ops.einsum("bs,bsk->bk", shares, source)  # c_i
        new = self.gru.next_state(gates + self.context(found), s)
        return ops.concatenate([s, new, found, shares], axis=-1), [new, source, keys, bias]


class Maxout(Layer):
    """The maximum of each pair of neighbours (Goodfellow et al., 2013): (..., 2 * M) -> (..., M)."""

    def call(self, x):
        return ops.max(ops.reshape(x, (*ops.shape(x)[:-1], -1, 2)), axis=-1)


class Embedding(keras.layers.Layer):
    """Word vectors of the source, (B, L) -> (B, L, E), and, as `target`, those of the target."""

    def __init__(self, config: RnnSearchConfig, **kwargs):
        super().__init__(**kwargs)
        size = config.vocabulary_size, config.embedding_dim
        self.source = keras.layers.Embedding(*size, embeddings_initializer=small(), name="source")
        self.target = keras.layers.Embedding(*size, embeddings_initializer=small(), name="target")

    def build(self, shape):
        for table in (self.source, self.target):
            table.build(shape)
        self.built = True

    def call(self, token_ids):
        return self.source(token_ids)


@keras.saving.register_keras_serializable("xmodels")
class RnnSearch(Backbone):
    """A bidirectional GRU encoder, and a GRU decoder with attention, by default additive.

    Call arguments:
        features: `token_ids` int (B, S) and `padding_mask` bool (B, S), the source; `target_ids` int (B, T), the inputs of the
            decoder: the target shifted right by one. Padding is on the right.

    Returns:
        A dictionary of `sequence_output` (B, T, M), the inputs of the output layer, and `encoder_output` (B, S, D).

    Raises:
        ValueError: `hidden_dim` is odd.
    """

    config_class = RnnSearchConfig
    encodes = True
    any_length = True
    reads = {**Backbone.reads, "target_ids": Feature((None,))}
    rewinds = False  # earlier states are not kept

    def __init__(self, config: RnnSearchConfig, **kwargs):
        super().__init__(config, **kwargs)
        if config.hidden_dim % 2:
            raise ValueError(f"`hidden_dim` must be even, half for each direction. Received: {config.hidden_dim}.")
        width = config.hidden_dim // 2
        self.embedding = Embedding(config, name="embedding")
        self.encoder_layers = [
            Bidirectional(*(Recurrent(GruCell(width), small()) for _ in range(2)), name=f"encoder_{i}")
            for i in range(config.num_layers)
        ]
        self.begin = keras.layers.Dense(width, "tanh", use_bias=False, kernel_initializer=small(), name="begin")  # W_s
        cell = AttentiveGruCell(config, name="cell")
        self.gates = keras.layers.Dense(3 * width, kernel_initializer=small(), name="gates")
        self.steps = keras.layers.RNN(cell, return_sequences=True, return_state=True, name="steps")
        # U_o s + V_o e + C_o c, as one product with their concatenation.
        self.deep = keras.layers.Dense(2 * config.maxout_dim, kernel_initializer=small(), name="deep")
        self.maxout, self.dropout = Maxout(), Dropout(config.dropout)
        self.output_words = keras.layers.Dense(config.vocabulary_size, kernel_initializer=small(), name="output_words")
        self.output_words.build((None, config.maxout_dim))  # only `logits` calls it

    def logits(self, states):
        """Returns the logits of target tokens: (..., M) -> float32 (..., V)."""
        return ops.cast(self.output_words(states), "float32")

    def call(self, features, training=None):
        source = self.encode(features, training)
        outputs, _ = self._run(features["target_ids"], self._before(source, features["padding_mask"]), training)
        return {"sequence_output": outputs, "encoder_output": source}

    def encode(self, features, training=None):
        """Returns the states of the source, (B, S, D)."""
        return self.hidden_states(features, training)[-1]

    def hidden_states(self, features, training=None):
        """Returns the word vectors of the source, (B, S, E), and the output of each layer of the encoder, (B, S, D)."""
        states = [self.embedding(features["token_ids"])]
        for layer in self.encoder_layers:
            states.append(layer(self.dropout(states[-1], training=training), features["padding_mask"]))
        return states

    def _before(self, source, padding_mask) -> dict:
        """Returns the initial state of the decoder, and the source with its keys, which are computed only once."""
        backwards = source[:, 0, self.config.hidden_dim // 2 :]  # the last backward state
        return {
            "past": self.begin(backwards),
            "source": source,
            "keys": self.steps.cell.attention.project(source),
            "bias": bias_of(padding_mask),
        }

    def _run(self, target_ids, before: dict, training=None):
        """Returns the outputs (B, T, M) of the next T tokens, and the state after them, (B, D / 2)."""
        words = self.embedding.target(target_ids)  # (B, T, E)
        found, past = self._steps(words, before)
        width, dim = self.config.hidden_dim // 2, self.config.hidden_dim
        old, new, context = (found[..., i:j] for i, j in ((0, width), (width, dim), (dim, 2 * dim)))
        state = old if self.config.output_state == "previous" else new
        deep = self.deep(ops.concatenate([state, words, context], axis=-1))  # (B, T, 2 M)
        return self.dropout(self.maxout(deep), training=training), past

    def _steps(self, words, before: dict):
        found, past, *_ = self.steps(
            self.gates(words), initial_state=[before[name] for name in ("past", "source", "keys", "bias")]
        )
        return found, past

    def alignments(self, features):
        """Returns the attention weights of each target token over the source, (B, T, S), for pictures (figure 3)."""
        before = self._before(self.encode(features), features["padding_mask"])
        found, _ = self._steps(self.embedding.target(features["target_ids"]), before)
        return found[..., 2 * self.config.hidden_dim :]

    def start(self, features, length: int):
        """Encodes the source and returns the initial `past` of `decode`. Its size does not depend on `length`."""
        return self._before(self.encode(features), features["padding_mask"])

    def decode(self, target_ids, past, position):
        """Decodes the next T tokens of targets, without recomputing those before them.

        Args:
            target_ids: int (B, T).
            past: the result of `start` or of the previous call.
            position: ignored; the state holds all that came before.

        Returns:
            Their outputs (B, T, M), and `past` updated with these tokens.
        """
        outputs, state = self._run(target_ids, past)
        return outputs, {**past, "past": state}


def small() -> keras.initializers.Initializer:
    """Returns the initializer of weights that are neither recurrent nor of the alignment model (appendix B.1)."""
    return keras.initializers.RandomNormal(stddev=0.01)


# base: the paper's, appendices A.2.3 and B.1; tiny is ours.
SIZES = {
    "tiny": {"hidden_dim": 256, "intermediate_dim": 128, "embedding_dim": 128, "maxout_dim": 128},
    "base": {"hidden_dim": 2000, "intermediate_dim": 1000, "embedding_dim": 620, "maxout_dim": 500},
}
