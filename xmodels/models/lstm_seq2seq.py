"""LSTM encoder-decoder that may begin as two language models (Ramachandran, Liu and Le, 2017, arXiv 1611.02683)."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from data_pipelines.errors import CheckpointError
from data_pipelines.features import Feature
from xmodels.layers.attention.additive import bias_of
from xmodels.layers.attention.alignment import SCORES, alignment_of
from xmodels.layers.dropout import Dropout
from xmodels.layers.initialization import uniform
from xmodels.models.backbone import Backbone
from xmodels.models.config import LONGEST_ROW, LayersConfig, TokenConfig
from xmodels.models.lstm_lm import Lstm, LstmLMConfig
from xmodels.models.parts import ENCODER, Part


@dataclasses.dataclass(frozen=True)
class LstmSeq2SeqConfig(LstmLMConfig):
    """Sizes of the network. `hidden_dim` is the width of word vectors and of all states, as in the language models.

    Attributes:
        num_layers: LSTMs of each side above that of its language model (2).
        score: how the decoder looks at the source, one of `layers.attention.alignment.SCORES`.
        align_dim: the width of the inner layer of the score "additive"; None for `hidden_dim`.
        num_places: places of a source that the score "location" tells apart.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {**LayersConfig.choices, "score": SCORES}
    bounds: ClassVar[dict[str, tuple[float, float]]] = {"num_places": (1, LONGEST_ROW)}
    num_layers: int = 2
    score: str = "general"
    align_dim: int | None = None
    num_places: int = 128

    @property
    def num_stacked(self) -> int:
        """The LSTMs of each side, L."""
        return self.num_layers + 1

    def kept_bytes(self, length, rematerialize=False):
        """Works as in `LayersConfig`, for two stacks."""
        return 2 * 32 * self.hidden_dim * self.num_stacked


@keras.saving.register_keras_serializable("xmodels")
class LstmSeq2Seq(Backbone):
    """Two stacks of LSTMs; the first one of each is that of a language model, and so is the softmax of the decoder.

    Of both stacks the output of the first LSTM is added to that of the last: y = h^1 + h^L. A state h^1 of the decoder looks at the
    source: its scores of the encoder's y give the weights a, and c = [sum a h^1; sum a y] is what all further LSTMs of the decoder
    read beside the states below them. So without these LSTMs the decoder is a language model. All states begin as zeros.

    Call arguments:
        features: `token_ids` int (B, S) and `padding_mask` bool (B, S), the source, padded on the right; `target_ids` int (B, T), the
            inputs of the decoder: the target shifted right by one.

    Returns:
        A dictionary of `sequence_output` (B, T, D), the y of the decoder, and `encoder_output` (B, S, D), that of the encoder.
    """

    config_class = LstmSeq2SeqConfig
    encodes = True
    any_length = True
    reads = {**Backbone.reads, "target_ids": Feature((None,))}
    rewinds = False  # earlier states are not kept
    begins_as = ("lstm_lm",)

    def __init__(self, config: LstmSeq2SeqConfig, **kwargs):
        super().__init__(config, **kwargs)
        make, dim, rows = uniform(config.initial_scale), config.hidden_dim, config.vocabulary_size
        self.embedding = keras.layers.Embedding(rows, dim, make(), name="embedding")
        self.target_embedding = keras.layers.Embedding(rows, dim, make(), name="target_embedding")
        self.encoder_layers, self.decoder_layers = (
            [Lstm(config, name=f"{stack}_{i}") for i in range(config.num_stacked)] for stack in ("encoder", "decoder")
        )
        widths = dim, dim, config.align_dim or dim
        self.attention = alignment_of(config.score, *widths, config.num_places, name="attention")
        self.dropout = Dropout(config.dropout)
        self.output_words = keras.layers.Dense(rows, kernel_initializer=make(), name="output_words")
        self.output_words.build((None, dim))  # only `logits` calls it

    def logits(self, states):
        """Returns the logits of target tokens: (..., D) -> float32 (..., V)."""
        return ops.cast(self.output_words(states), "float32")

    def call(self, features, training=None):
        first, source = self._encode(features, training)
        outputs, _ = self._run(features["target_ids"], self._before(first, source, features["padding_mask"]), training)
        return {"sequence_output": outputs, "encoder_output": source}

    def encode(self, features, training=None):
        """Returns the states y of the source, (B, S, D)."""
        return self._encode(features, training)[1]

    def hidden_states(self, features, training=None):
        """Returns the word vectors of the source, the output of each LSTM of the encoder but the last, and y: (B, S, D) each."""
        states = self._source_states(features["token_ids"], training)
        return [*states[:-1], states[1] + states[-1]]

    def language_model(self, part: str, token_ids, training=None):
        """Returns the states of the language model in a part of the network, "encoder" or "decoder": int (B, N) -> (B, N, D)."""
        if part == ENCODER:
            return self._source_states(token_ids, training, count=1)[-1]
        words = self.dropout(self.target_embedding(token_ids), training=training)
        return self.dropout(self.decoder_layers[0](words, self._empty(token_ids)[:, 0])[0], training=training)

    def _source_states(self, token_ids, training=None, count: int | None = None):
        """Returns the word vectors of sources and the outputs of the first `count` LSTMs of the encoder, by default of all: (B, S, D)
        each."""
        states, empty = [self.dropout(self.embedding(token_ids), training=training)], self._empty(token_ids)
        for layer in self.encoder_layers[:count]:
            states.append(self.dropout(layer(states[-1], empty[:, 0])[0], training=training))
        return states

    def _encode(self, features, training=None):
        """Returns h^1 and y of the source, (B, S, D) each."""
        _, first, *_, last = self._source_states(features["token_ids"], training)
        return first, first + last

    def _empty(self, token_ids):
        """Returns h and c of all LSTMs of a stack before the first token: float32 (B, L, 2, D)."""
        return ops.zeros((ops.shape(token_ids)[0], self.config.num_stacked, 2, self.config.hidden_dim), "float32")

    def _before(self, first, source, padding_mask) -> dict:
        """Returns the initial state of the decoder, and the source with its keys, which are computed only once."""
        return {
            "past": self._empty(padding_mask),
            "source": ops.concatenate([first, source], axis=-1),
            "keys": self.attention.project(source),
            "bias": bias_of(padding_mask),
        }

    def _first(self, target_ids, before: dict, training=None):
        """Returns h^1 (B, T, D) of the next T tokens, its state after them (B, 2, D), and the attention weights (B, T, S)."""
        words = self.dropout(self.target_embedding(target_ids), training=training)
        first, state = self.decoder_layers[0](words, before["past"][:, 0])
        first = self.dropout(first, training=training)
        return first, state, self.attention(first, before["keys"], before["bias"])

    def _run(self, target_ids, before: dict, training=None):
        """Returns the outputs (B, T, D) of the next T tokens, and the states after them, float32 (B, L, 2, D)."""
        first, state, shares = self._first(target_ids, before, training)
        context = ops.einsum("bts,bsk->btk", ops.cast(shares, first.dtype), ops.cast(before["source"], first.dtype))
        x, states = first, [state]
        for i, layer in enumerate(self.decoder_layers[1:], 1):
            x, state = layer(ops.concatenate([x, context], axis=-1), before["past"][:, i])
            x = self.dropout(x, training=training)
            states.append(state)
        return first + x, ops.cast(ops.stack(states, axis=1), "float32")

    def alignments(self, features):
        """Returns the attention weights of each target token over the source, float32 (B, T, S), for pictures."""
        before = self._before(*self._encode(features), features["padding_mask"])
        return self._first(features["target_ids"], before)[2]

    def start(self, features, length: int):
        """Encodes the source and returns the initial `past` of `decode`. Its size does not depend on `length`."""
        return self._before(*self._encode(features), features["padding_mask"])

    def decode(self, target_ids, past, position):
        """Decodes the next T tokens of targets, without recomputing those before them.

        Args:
            target_ids: int (B, T).
            past: the result of `start` or of the previous call.
            position: ignored; the state holds all that came before.

        Returns:
            Their outputs (B, T, D), and `past` updated with these tokens.
        """
        outputs, states = self._run(target_ids, past)
        return outputs, {**past, "past": states}

    @classmethod
    def adopt_part(cls, part, config, model, loaded: TokenConfig, values: Mapping[str, Any], source: str) -> Part:
        """Works as in `Backbone`: word vectors and LSTM of a language model, and its softmax, for the encoder that of its loss."""
        if loaded.num_layers != 1:
            raise CheckpointError(
                f"{source}: a language model of {loaded.num_layers} LSTMs; the first one alone is taken over, so the softmax must "
                "read that one. Give one of --set=num_layers=1."
            )
        heads = {name: f"objective.untied_lm.head.{name}" for name in ("kernel", "bias")}
        if missing := [name for name in heads.values() if name not in values]:
            raise CheckpointError(
                f"{source}: holds no softmax ({missing[0]}). Give the folder of a run of --system=lstm_lm."
            )
        table, softmax = ("", "objective.source_lm.head") if part == ENCODER else ("target_", "backbone.output_words")
        names = {
            "backbone.embedding.embeddings": f"backbone.{table}embedding.embeddings",
            **{name: f"{softmax}.{weight}" for weight, name in heads.items()},
        }
        lstm = "backbone.recurrent_layers.0."
        names |= {
            name: f"backbone.{part}_layers.0.{name.removeprefix(lstm)}" for name in values if name.startswith(lstm)
        }
        sizes = {"hidden_dim": (loaded.hidden_dim, config.hidden_dim)}
        return Part({ours: values[name] for name, ours in names.items()}, sizes)


def _size(hidden_dim: int, num_layers: int, dropout: float, initial_scale: float = 0.1) -> dict:
    return {
        "hidden_dim": hidden_dim, "num_layers": num_layers, "dropout": dropout, "initial_scale": initial_scale,
    }  # fmt: skip


# The widths are those of the sizes of `lstm_lm`; three LSTMs a side are the paper's, whose widths need a projection.
SIZES = {
    "tiny": _size(64, 1, 0.0),
    "small": _size(200, 2, 0.0),
    "base": _size(650, 2, 0.2, 0.05),
    "large": _size(1500, 2, 0.2, 0.04),
}
