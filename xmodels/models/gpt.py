"""GPT: Improving Language Understanding by Generative Pre-Training (Radford, Narasimhan, Salimans, Sutskever, 2018)."""

import dataclasses

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.layers import initialization as initializations
from xmodels.layers.attention.places import positions_of
from xmodels.layers.attention.visible import Visible
from xmodels.layers.blocks import PostNormBlock, attention_maps, attention_scores
from xmodels.layers.embeddings import TokenPositionEmbedding
from xmodels.layers.feedforward import FeedForward
from xmodels.layers.mixers import mixer_for
from xmodels.models.backbone import Backbone
from xmodels.models.mixing import MixerConfig


@dataclasses.dataclass(frozen=True)
class GptConfig(MixerConfig):
    """GPT's "gelu" is the tanh approximation."""

    attention_dropout: float = 0.1
    activation: str = "gelu_tanh"
    layer_norm_epsilon: float = 1e-5
    initializer_stddev: float = 0.02


@keras.saving.register_keras_serializable("xmodels")
class Gpt(Backbone):
    """A stack of causal post-norm blocks over the sum of token and position embeddings.

    Call arguments:
        features: `token_ids` int (B, L), `padding_mask` bool (B, L), True on real tokens; `position_ids` int (B, L) and
            `pack_ids` int (B, L) if rows are padded on the left or hold several texts.
        visible: a `Visible`, which tokens a token attends to; by default the real ones up to itself, in packed rows of its text.

    Returns:
        A dictionary of `sequence_output` (B, L, D).
    """

    config_class = GptConfig
    mixer_must_support = frozenset({"padding", "causal"})
    may_read = {"pack_ids": Feature((None,)), "position_ids": Feature((None,))}

    def __init__(self, config: GptConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.embedding = self.make_embedding(config)
        shared: dict = {}  # layers that the mixers of several blocks use
        self.blocks = [self.make_block(config, index, shared) for index in range(config.num_layers)]

    def make_embedding(self, config: GptConfig) -> keras.layers.Layer:
        return TokenPositionEmbedding(config, name="embedding")

    def make_block(self, config: GptConfig, index: int, shared: dict) -> keras.layers.Layer:
        initialization = initializations.gpt(config.initializer_stddev)
        mixer = mixer_for(config, initialization, self.mixer_must_support, index, shared)
        feedforward = FeedForward(config.hidden_dim, config.intermediate_dim, config.activation, initialization)
        return PostNormBlock(mixer, feedforward, config.dropout, config.layer_norm_epsilon, name=f"block_{index}")

    def finish(self, x):
        """Returns what follows the last block; here the states as they are."""
        return x

    def call(self, features, visible=None, training=None):
        x = self.embedding(features["token_ids"], features.get("position_ids"), training=training)  # (B, L, D)
        if visible is None:
            visible = self.visible(features)
        for block in self.blocks:
            x = block(x, visible=visible, training=training)
        return {"sequence_output": self.finish(x)}

    def visible(self, features) -> Visible:
        """Returns the default `visible`: real tokens up to the query, in packed rows only those of its text."""
        packs = features.get("pack_ids")
        if packs is not None:
            return Visible(causal=True, packs=packs)
        return Visible(features["padding_mask"], causal=True)

    def hidden_states(self, features, training=None):
        """Returns the input of each block and the output of the network, num_layers + 1 tensors (B, L, D)."""
        visible = self.visible(features)
        states = [self.embedding(features["token_ids"], features.get("position_ids"), training=training)]
        for block in self.blocks:
            states.append(block(states[-1], visible=visible, training=training))
        return [*states[:-1], self.finish(states[-1])]

    def attention_maps(self, features):
        """Returns the attention probabilities of every block, num_layers tensors float32 (B, H, L, L)."""
        return attention_maps(self.blocks, self.hidden_states(features), self.visible(features))

    def attention_scores(self, features, states):
        return attention_scores(self.blocks, states, self.visible(features))

    @property
    def rewinds(self) -> bool:
        return all(block.mixer.rewinds for block in self.blocks)

    def start(self, batch_size: int, length: int):
        """Returns the initial `past` of `decode`, for texts of at most `length` tokens: the cache of the mixer of each block."""
        return tuple(block.start(batch_size, length) for block in self.blocks)

    @property
    def shares_past(self) -> bool:
        return all(block.shares_past for block in self.blocks)

    @property
    def places_texts(self) -> bool:
        return all(block.mixer.places_texts for block in self.blocks)

    def decode(self, token_ids, past, place):
        """Decodes the next L tokens of texts, without recomputing those before them.

        Args:
            token_ids: int (B, L), the tokens from position `place` on.
            past: the result of `start` or of the previous call.
            place: int, the position of the first token; or `attention.places.Beams`.

        Returns:
            Their states (B, L, D), and `past` updated with these tokens.
        """
        length = ops.shape(token_ids)[1]
        x = self.embedding(token_ids, ops.reshape(positions_of(place, length), (-1, length)))  # of (1, L) or (B, L)
        present = []
        for block, of_block in zip(self.blocks, past, strict=True):
            x, of_block = block.step(x, of_block, place)
            present.append(of_block)
        return self.finish(x), tuple(present)


def size(num_layers: int, hidden_dim: int, num_heads: int, max_sequence_length: int) -> dict:
    """Returns the fields of a size; `intermediate_dim` is 4 * `hidden_dim`."""
    return {
        "num_layers": num_layers,
        "hidden_dim": hidden_dim,
        "num_heads": num_heads,
        "intermediate_dim": 4 * hidden_dim,
        "max_sequence_length": max_sequence_length,
    }


# base: section 4.1. The others are ours, with the shapes of the small BERTs, for trials.
SIZES = {"tiny": size(2, 128, 2, 512), "mini": size(4, 256, 4, 512), "base": size(12, 768, 12, 512)}
