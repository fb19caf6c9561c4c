"""How a task reads texts with a network: the special tokens, the state that its head reads, the fine-tuning hyperparameters."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras

from data_pipelines.errors import UsageError
from data_pipelines.text.frames import BERT, ROBERTA, XLNET, Frame
from data_pipelines.text.tokenizer import Tokenizer
from data_pipelines.text.vocabulary import EOS, SEP, Vocabulary
from xmodels.layers import pooling
from xmodels.layers.activations import activation
from xmodels.layers.initialization import GlorotUniform, truncated_normal
from xmodels.layers.poolings import KNOWN, PUBLISHED, is_known, is_mixed
from xmodels.layers.scalar_mix import ScalarMix

# Devlin et al., 2018, appendix A.3: the middle of the ranges.
BERT_NUMBERS = {
    "learning_rate": 5e-5, "warmup_proportion": 0.1, "optimizer": "bert_adamw", "lr_schedule": "bert_linear",
}  # fmt: skip
# Learning rates of networks that are narrower than all published base ones: at 5e-5 a network of width 128 hardly learns. The rate
# falls in proportion to the width, down to about BERT's own. Networks that were trained with Muon are also fine-tuned with Muon, at
# about half of the rate of pretraining: AdamW hardly changes them (measurements in docs/small_networks.md).
BASE_WIDTH, SMALL_WIDTH, SMALL_RATE, SMALL_MUON_RATE = 768, 128, 3e-4, 2e-3
MEAN_AND_MAX = "mean+max"
STDDEV = 0.02  # of the kernel of a head, if the configuration has no `initializer_stddev`


def pooled(outputs: Mapping[str, Any], batch: Mapping[str, Any]):
    """Returns the `pooled_output` of the network, (B, D) (Devlin et al., 2018, section 4.1)."""
    return outputs["pooled_output"]


def first_token(outputs: Mapping[str, Any], batch: Mapping[str, Any]):
    """Returns the state of the first token of each sequence, (B, D)."""
    return outputs["sequence_output"][:, 0]


def last_token(outputs: Mapping[str, Any], batch: Mapping[str, Any]):
    """Returns the state of the last real token of each sequence, (B, D), on whichever side padding stands."""
    return pooling.last_state(outputs["sequence_output"], batch["padding_mask"])


def last_position(outputs: Mapping[str, Any], batch: Mapping[str, Any]):
    """Returns the state at the last position of each sequence, (B, D). Padding must be on the left."""
    return outputs["sequence_output"][:, -1]


SAME: dict[Callable[..., Any], str] = {
    first_token: "first",
    last_token: "last",
    last_position: "last",
}  # summaries that are the same as a pooling
STATELESS = pooling.STATELESS


def as_published(config: Any, optimizer: str | None) -> str:
    """Returns the default pooling of a system: that of its paper."""
    return PUBLISHED


def of_small(config: Any, optimizer: str | None) -> str:
    """Returns the default pooling of masked language models: "mean+max" for small networks that were trained with Muon.

    Short pretraining with Muon does not train the pooled state that their papers read (benchmarks/results/readouts.md).
    """
    return MEAN_AND_MAX if optimizer == "muon" and config.hidden_dim < BASE_WIDTH else PUBLISHED


def mean_of_states(outputs: Mapping[str, Any], batch: Mapping[str, Any]):
    """Returns the mean of the states of the real tokens, (B, D)."""
    return pooling.mean_state(outputs["sequence_output"], batch["padding_mask"])


def normal(stddev: float) -> keras.initializers.Initializer:
    """Returns an initializer with a normal distribution."""
    return keras.initializers.RandomNormal(stddev=stddev)


def dense_with(name: str) -> Callable[[Any, keras.initializers.Initializer], keras.layers.Layer]:
    """Returns a function that makes a Dense layer as wide as the network, with an activation of `layers.activations`."""

    def make(config, initializer) -> keras.layers.Layer:
        return keras.layers.Dense(config.hidden_dim, activation(name), kernel_initializer=initializer, name="dense")

    return make


@dataclasses.dataclass(frozen=True)
class Reading:
    """How a system reads the texts of a task. The defaults are BERT's.

    Attributes:
        frame: the special tokens around the texts.
        summary: a function of (outputs of the network, batch) that returns (B, D), the state that the head reads.
        has_dense: whether the head has its own Dense layer on that state, as in fairseq; a pooled state has passed through one
            already.
        make_dense: (configuration, initializer of its kernel) -> that layer, called on states (..., D); by default with tanh.
        has_bias: whether the last layer of the head has a bias.
        drops_state: whether dropout comes before that Dense layer too. XLNet drops what it returns already.
        added_tokens: special tokens that fine-tuning adds to a vocabulary that lacks them.
        asks_first: whether a question is joined to its context rather than to each choice.
        make_initializer: (stddev) -> the initializer of a kernel of the head.
        head_dropout: the dropout rate of the head; None for that of the network.
        numbers: {flag of `finetune`: default}. `numbers_for` adapts them to small networks.
        default_pooling: (configuration of the network, optimizer that trained it) -> the default pooling of a fine-tuning, a name
            in `layers.poolings`. A resumed run keeps its pooling.
        pooling: a name in `layers.poolings`. Unless it is "published", tasks use it instead of `summary`.
        encodes: whether only the encoder is called, with its states as `sequence_output`.
        make_network: configuration of the network -> a layer that heads have instead of `summary`, called as
            layer(states (B, L, D), padding_mask (B, L), training=...) -> (B, A), with `segment_ids` (B, L) too if it `tells_texts`
            apart; None for heads without one. A `pooling` other than "published" replaces it.
        mixes: whether a task reads a mix of all layers, which it learns, instead of the states of the last one.
        mix: layers (B, L, D) each -> (B, L, D), of `build_layer_mix`.
    """

    frame: Frame = BERT
    summary: Callable[[Mapping[str, Any], Mapping[str, Any]], Any] = pooled
    has_dense: bool = False
    make_dense: Callable[[Any, keras.initializers.Initializer], keras.layers.Layer] = dense_with("tanh")
    has_bias: bool = True
    drops_state: bool = True
    added_tokens: tuple[str, ...] = ()
    asks_first: bool = False
    make_initializer: Callable[[float], keras.initializers.Initializer] = truncated_normal
    head_dropout: float | None = None
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=lambda: dict(BERT_NUMBERS))
    default_pooling: Callable[[Any, str | None], str] = of_small
    pooling: str = PUBLISHED
    encodes: bool = False
    make_network: Callable[[Any], keras.layers.Layer] | None = None
    mixes: bool = False
    mix: Callable[[list], Any] | None = None

    def numbers_for(self, config, optimizer: str | None = None) -> dict[str, Any]:
        """Returns `numbers` adapted to a network; see the function `numbers_for`."""
        return numbers_for(self.numbers, config, optimizer)

    def with_frame_of(self, tokenizer: Tokenizer, config: Any) -> "Reading":
        """Returns a copy with the special tokens that a tokenizer says itself; the same where it says none.

        A system with tokens that only fine-tuning adds keeps its own frame.
        """
        if tokenizer.frame is None or self.added_tokens:
            return self
        return dataclasses.replace(
            self, frame=self.frame.with_parts(tokenizer.frame, getattr(config, "num_segments", None))
        )

    def with_pooling(self, name: str | None) -> "Reading":
        """Returns a copy with this pooling, a name in `layers.poolings`. None, or the pooling of `summary`, gives "published".

        Raises:
            UsageError: there is no such pooling.
        """
        if name is not None and not is_known(name):
            raise UsageError(f"--pooling={name}: expected {KNOWN}.")
        if name is None or SAME.get(self.summary) == name:
            name = PUBLISHED
        mixes = self.mixes if name == PUBLISHED else is_mixed(name)
        return dataclasses.replace(self, pooling=name, mixes=mixes)

    def build_pooling(self, config) -> tuple["Reading", keras.layers.Layer | None]:
        """Returns a copy with its pooling as `summary`, and the layer with the weights of the pooling, or None if it has none.

        A task calls it when it makes its head, and keeps the layer as a sublayer.
        """
        if self.pooling == PUBLISHED:
            return self, None
        pool, layer = pooling.pooling_of(self.pooling, config.hidden_dim)

        def summary(outputs, batch):
            return pool(outputs["sequence_output"], batch["padding_mask"])

        return dataclasses.replace(self, summary=summary), layer

    def network(self, config) -> keras.layers.Layer | None:
        """Returns the layer that a head has instead of `summary`, with weights of its own; None if it has none."""
        return self.make_network(config) if self.make_network and self.pooling == PUBLISHED else None

    def build_layer_mix(self) -> tuple["Reading", ScalarMix | None]:
        """Returns a copy that mixes the layers of the network, and the layer that learns how; the same and None if it `mixes` none.

        A task calls it when it makes its head, and keeps the layer as a sublayer.
        """
        if not self.mixes:
            return self, None
        layer = ScalarMix()
        return dataclasses.replace(self, mix=layer), layer

    def initializer(self, config) -> keras.initializers.Initializer:
        """Returns an initializer for one kernel of a head; call it for each kernel."""
        return self.make_initializer(getattr(config, "initializer_stddev", STDDEV))

    def dropout_rate(self, config) -> float:
        """Returns the default dropout rate of a head."""
        return config.dropout if self.head_dropout is None else self.head_dropout

    def dense(self, config) -> keras.layers.Layer | None:
        """Returns the Dense layer of a head between its two dropouts, or None if it has none."""
        if not self.has_dense:
            return None
        return self.make_dense(config, self.initializer(config))

    def outputs(self, backbone, batch: Mapping[str, Any], training=None) -> dict[str, Any]:
        """Returns the outputs of the network that `summary` reads; if that is `pooled_output`, the others may be missing.

        A network that is not trainable is called without dropout.
        """
        if self.summary is pooled:
            return backbone.summarize(batch, training=training and backbone.trainable)
        return self.states(backbone, batch, training)

    def states(self, backbone, batch: Mapping[str, Any], training=None) -> dict[str, Any]:
        """Returns the outputs of the network with the states of all tokens, `sequence_output` (B, L, D).

        A network that is not trainable, or whose layers are mixed, is called without dropout.
        """
        training = training and backbone.trainable
        if self.mix is not None:
            return {"sequence_output": self.mix(layers_of(backbone, batch))}
        if self.encodes:
            return {"sequence_output": backbone.encode(batch, training=training)}
        return backbone(batch, training=training)


def layers_of(backbone, batch: Mapping[str, Any], training=None) -> list:
    """Returns the states of each layer of a network, (B, L, D) each; of two streams those of the tokens."""
    states = backbone.hidden_states(batch, training=training)
    return [shown["content"] if isinstance(shown, dict) else shown for shown in states]


def numbers_for(numbers: Mapping[str, Any], config, optimizer: str | None = None) -> dict[str, Any]:
    """Returns the hyperparameters of a fine-tuning, with a larger learning rate for networks narrower than `BASE_WIDTH`.

    Args:
        numbers: those of the paper, {flag: value}.
        config: of the network.
        optimizer: the one of this training, or the one that trained the network; only "muon" makes a difference.
    """
    if config.hidden_dim >= BASE_WIDTH:
        return dict(numbers)
    muon = optimizer == "muon"
    rate = (SMALL_MUON_RATE if muon else SMALL_RATE) * min(1.0, SMALL_WIDTH / config.hidden_dim)
    found = {**numbers, "learning_rate": rate if muon else max(rate, numbers["learning_rate"])}
    if muon:
        found.pop("adam_epsilon", None)  # Muon has its own
        found["optimizer"] = "muon"
    return found


# Liu et al., 2019, section 5.1, and fairseq's head: a Dense layer with tanh on the state of `<s>`; Adam with weight decay 0.1 and
# beta2 0.98, warmup for 6% of the steps and linear decay; gradients are not clipped.
ROBERTA_READING = Reading(
    frame=ROBERTA,
    summary=first_token,
    has_dense=True,
    make_initializer=normal,
    numbers={
        "learning_rate": 1e-5, "warmup_proportion": 0.06, "optimizer": "adamw", "lr_schedule": "linear",
        "weight_decay": 0.1, "adam_beta2": 0.98, "clip_norm": 0.0,
    },
)  # fmt: skip

# Yang et al., 2019, appendix A.4.2, and the released code: the class token comes last, with a Dense layer with tanh on its state;
# Adam with epsilon 1e-6, weight decay 0.01 and linear decay of the learning rate.
XLNET_READING = Reading(
    frame=XLNET,
    summary=last_position,
    has_dense=True,
    drops_state=False,
    make_initializer=normal,
    default_pooling=as_published,
    numbers={
        "learning_rate": 2e-5, "warmup_proportion": 0.1, "optimizer": "adamw", "lr_schedule": "linear",
    },
)  # fmt: skip

# Lewis et al., 2019, section 3.1: the decoder reads the text of the encoder, shifted right by one; the head, RoBERTa's, reads the
# state of the decoder at the last `</s>`.
BART_READING = dataclasses.replace(ROBERTA_READING, summary=last_token, default_pooling=as_published)


# Baselines that are trained on labelled texts only (docs/rnn_cnn.md). A token after each text keeps empty texts from having no token.
FROM_LABELS_READING = Reading(
    frame=Frame.of(f"A {SEP} (B {SEP})"),
    make_initializer=lambda stddev: GlorotUniform(),
    default_pooling=as_published,
    numbers={"learning_rate": 1e-3, "warmup_proportion": 0.0, "optimizer": "adam", "lr_schedule": "linear"},
)


def reading_without_system(network: Any) -> Reading | None:
    """Returns the `Reading` of a network that no system pretrains; None if there is none."""
    if not network.from_labels:
        return None
    fields = dict(network.read_as)
    if "frame" in fields:
        fields["frame"] = Frame.of(fields["frame"])
    return dataclasses.replace(FROM_LABELS_READING, **fields)


def plain_reading(network: Any, vocabulary: Vocabulary, generates: bool) -> Reading:
    """Returns a `Reading` for networks whose papers do not fine-tune them. It needs a pooling, since no state is trained for heads.

    An end token follows each text if the network generates text. Of an encoder-decoder only the encoder is called.

    Args:
        network: the class of the network.
        vocabulary: where the end token is looked up.
        generates: whether the network has learned to predict an end token.
    """
    end = next((role for role in (EOS, SEP) if role in vocabulary.roles), None) if generates else None
    frame = Frame.of(f"A {end} (B {end})" if end else "A (B)", whole_is_last=True)
    return Reading(frame=frame, make_initializer=normal, encodes=network.encodes, default_pooling=as_published)
