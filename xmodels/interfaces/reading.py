"""How texts enter a network: the special tokens around them, the state that answers about them, the numbers of a fine-tuning."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from data_pipelines.errors import UsageError
from data_pipelines.text.frames import BERT, ROBERTA, XLNET, Frame
from data_pipelines.text.vocabulary import EOS, SEP, Vocabulary
from xmodels.layers import pooling
from xmodels.layers.initialization import GlorotUniform, truncated_normal
from xmodels.layers.poolings import KNOWN, PUBLISHED, is_known

# Devlin et al., 2018, appendix A.3: the middle of the ranges.
BERT_NUMBERS = {
    "learning_rate": 5e-5, "warmup_proportion": 0.1, "optimizer": "bert_adamw", "lr_schedule": "bert_linear",
}  # fmt: skip
# The learning rate of networks narrower than every published base one: at 5e-5 those of 128 hardly leave where they began. Wider
# ones take as much less as they are wider, down to about BERT's own. What Muon has trained is fine-tuned by it, at about half of the
# rate of its pretraining: AdamW hardly moves it (docs/small_networks.md has what was measured).
BASE_WIDTH, SMALL_WIDTH, SMALL_RATE, SMALL_MUON_RATE = 768, 128, 3e-4, 2e-3
MEAN_AND_MAX = "mean+max"
STDDEV = 0.02  # of the kernel of a head, where the network names none for its own


def pooled(outputs: Mapping[str, Any], batch: Mapping[str, Any]):
    """(B, D), what the network makes of the first token of each sequence (Devlin et al., 2018, section 4.1)."""
    return outputs["pooled_output"]


def first_token(outputs: Mapping[str, Any], batch: Mapping[str, Any]):
    """(B, D), the state of the first token of each sequence (B, L)."""
    return outputs["sequence_output"][:, 0]


def last_token(outputs: Mapping[str, Any], batch: Mapping[str, Any]):
    """(B, D), the state of the last real token of each sequence (B, L), behind which padding stands."""
    count = ops.sum(ops.cast(batch["padding_mask"], "int32"), axis=-1)  # (B,)
    place = ops.reshape(ops.maximum(count - 1, 0), (-1, 1, 1))  # (B, 1, 1)
    return ops.squeeze(ops.take_along_axis(outputs["sequence_output"], place, axis=1), 1)


def last_position(outputs: Mapping[str, Any], batch: Mapping[str, Any]):
    """(B, D), the state at the end of each sequence (B, L), before which padding stands."""
    return outputs["sequence_output"][:, -1]


SAME = {first_token: "first", last_token: "last", last_position: "last"}  # summaries that have the name of a pooling
STATELESS = pooling.STATELESS


def as_published(config: Any, optimizer: str | None) -> str:
    """The default of a system: what its paper reads."""
    return PUBLISHED


def of_small(config: Any, optimizer: str | None) -> str:
    """That of networks that hide tokens: short pretrainings by Muon do not fill the state that their papers read
    (benchmarks/results/readouts.md)."""
    return MEAN_AND_MAX if optimizer == "muon" and config.hidden_dim < BASE_WIDTH else PUBLISHED


def normal(stddev: float) -> keras.initializers.Initializer:
    """A normal distribution."""
    return keras.initializers.RandomNormal(stddev=stddev)


@dataclasses.dataclass(frozen=True)
class Reading:
    """How a system reads the texts of a task. The defaults are BERT's.

    Attributes:
        frame: where special tokens stand around the texts.
        summary: (outputs of the network, batch of B sequences) -> (B, D), the state that answers.
        has_dense: whether a head has a Dense layer with tanh of its own on that state, as fairseq's; pooled states have gone
            through one already.
        added_tokens: special tokens that fine-tuning adds to a vocabulary that lacks them.
        asks_first: whether a question stands with its context, and not with the choice that answers it.
        make_initializer: (stddev) -> the initializer of the kernel of a head.
        head_dropout: the dropout of a head; None for that of the network.
        numbers: flags of `finetune` and what holds where they are not given; `numbers_for` has those of small networks.
        default_pooling: configuration of the network, and the optimizer that trains it -> the pooling of a fine-tuning that names
            none, of `layers.poolings`; a run keeps the one that it began with.
        pooling: of `layers.poolings`. Where it is not "published", tasks put it in the place of `summary`.
        encodes: whether the states are those of the encoder, which is all that is called.
    """

    frame: Frame = BERT
    summary: Callable[[Mapping[str, Any], Mapping[str, Any]], Any] = pooled
    has_dense: bool = False
    added_tokens: tuple[str, ...] = ()
    asks_first: bool = False
    make_initializer: Callable[[float], keras.initializers.Initializer] = truncated_normal
    head_dropout: float | None = None
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=lambda: dict(BERT_NUMBERS))
    default_pooling: Callable[[Any, str | None], str] = of_small
    pooling: str = PUBLISHED
    encodes: bool = False

    def numbers_for(self, config, optimizer: str | None = None) -> dict[str, Any]:
        """`numbers`, as the function of this name has them for a network."""
        return numbers_for(self.numbers, config, optimizer)

    def with_pooling(self, name: str | None) -> "Reading":
        """The same with one of `layers.poolings`; with the name of what it reads already, or None, it stays as published.

        Raises:
            UsageError: there is no such pooling.
        """
        if name is not None and not is_known(name):
            raise UsageError(f"--pooling={name}: expected {KNOWN}.")
        if name is None or SAME.get(self.summary) == name:
            name = PUBLISHED
        return dataclasses.replace(self, pooling=name)

    def summarized_by(self, config) -> tuple["Reading", keras.layers.Layer | None]:
        """The same with its pooling as `summary`, and the layer whose weights that has; None where it has none.

        A task calls it when it makes its head, and owns the layer.
        """
        if self.pooling == PUBLISHED:
            return self, None
        pool, layer = pooling.pooling_of(self.pooling, config.hidden_dim)

        def summary(outputs, batch):
            return pool(outputs["sequence_output"], batch["padding_mask"])

        return dataclasses.replace(self, summary=summary), layer

    def initializer(self, config) -> keras.initializers.Initializer:
        """The initializer of the kernel of a head; make one for each."""
        return self.make_initializer(getattr(config, "initializer_stddev", STDDEV))

    def dropout_rate(self, config) -> float:
        """The dropout of a head, where no flag says another one."""
        return config.dropout if self.head_dropout is None else self.head_dropout

    def dense(self, config) -> keras.layers.Layer | None:
        """What a head applies to the state that answers, between two dropouts; None where that is nothing."""
        if not self.has_dense:
            return None
        initializer = self.initializer(config)
        return keras.layers.Dense(config.hidden_dim, "tanh", kernel_initializer=initializer, name="dense")

    def outputs(self, backbone, batch: Mapping[str, Any], training=None) -> dict[str, Any]:
        """Calls the network for `summary`; where the pooled state answers, what only single tokens need may be left out.

        A network that does not learn is read without dropout.
        """
        if self.summary is pooled:
            return backbone.summarize(batch, training=training and backbone.trainable)
        return self.states(backbone, batch, training)

    def states(self, backbone, batch: Mapping[str, Any], training=None) -> dict[str, Any]:
        """Calls the network for the states of all tokens, `sequence_output` (B, L, D); likewise."""
        training = training and backbone.trainable
        if self.encodes:
            return {"sequence_output": backbone.encode(batch, training=training)}
        return backbone(batch, training=training)


def numbers_for(numbers: Mapping[str, Any], config, optimizer: str | None = None) -> dict[str, Any]:
    """The numbers of a fine-tuning, with a larger learning rate where the network is narrower than `BASE_WIDTH`.

    Args:
        numbers: those of the paper.
        config: of the network.
        optimizer: of this training, or else the one that trained the network; only `muon` makes a difference.
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


# Liu et al., 2019, section 5.1, and fairseq's head: a Dense layer with tanh on the state of `<s>`; Adam with decay 0.1 and beta2
# 0.98, whose rate rises for 6 % of the steps and falls in a line; gradients are not clipped.
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

# Yang et al., 2019, appendix A.4.2, and the released code: the class token stands last, behind a Dense layer with tanh; Adam with
# epsilon 1e-6 and decay 0.01, whose rate falls in a line.
XLNET_READING = Reading(
    frame=XLNET,
    summary=last_position,
    has_dense=True,
    make_initializer=normal,
    default_pooling=as_published,
    numbers={
        "learning_rate": 2e-5, "warmup_proportion": 0.1, "optimizer": "adamw", "lr_schedule": "linear",
    },
)  # fmt: skip

# Lewis et al., 2019, section 3.1: the decoder reads the text of the encoder, moved on by one place; its state at the last `</s>`
# answers. The head is RoBERTa's.
BART_READING = dataclasses.replace(ROBERTA_READING, summary=last_token, default_pooling=as_published)


# Baselines that learn from labelled texts alone (docs/rnn_cnn.md). A token behind each text keeps empty ones from being none.
FROM_LABELS_READING = Reading(
    frame=Frame.of(f"A {SEP} (B {SEP})"),
    make_initializer=lambda stddev: GlorotUniform(),
    default_pooling=as_published,
    numbers={"learning_rate": 1e-3, "warmup_proportion": 0.0, "optimizer": "adam", "lr_schedule": "linear"},
)


def reading_without_system(network: Any) -> Reading | None:
    """How texts enter a network that no system trains; None where it is not known."""
    return FROM_LABELS_READING if network.from_labels else None


def plain_reading(network: Any, vocabulary: Vocabulary, generates: bool) -> Reading:
    """How texts enter a network whose paper asks it about none: each with the token behind it that ends texts, where the network
    has learnt to write one. It has no state that answers, so it needs a pooling.

    Of encoder and decoder the encoder reads.
    """
    end = next((role for role in (EOS, SEP) if role in vocabulary.roles), None) if generates else None
    frame = Frame.of(f"A {end} (B {end})" if end else "A (B)", whole_is_last=True)
    return Reading(
        frame=frame, summary=last_token, make_initializer=normal, encodes=network.encodes, default_pooling=as_published
    )
