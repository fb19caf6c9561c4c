"""The layers of a network learn from those of a teacher: TinyBERT (Jiao et al., 2020, arXiv 1909.10351, section 3.1)."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from data_pipelines.features import Feature
from xmodels.interfaces.reading import layers_of
from xmodels.layers.attention.core import HIDDEN as MASKED
from xmodels.layers.initialization import truncated_normal
from xmodels.models.backbone import Backbone
from xmodels.objectives.base import Objective
from xmodels.tasks.base.layer_maps import ATTENTION, EMBEDDINGS, HIDDEN, Pairs
from xmodels.tasks.base.sequences import row_weights, rows


@dataclasses.dataclass(frozen=True, eq=False)
class Frozen:
    """Holds a network that does not learn, so that its weights are not among those of an objective, which are saved."""

    network: Backbone


@dataclasses.dataclass(frozen=True)
class Layers:
    """What a network shows of a batch.

    Attributes:
        states: (B, L, D) each, of the embedding and of every layer.
        scores: (B, H, L, L) each, of the attention of every layer before its softmax; [] for networks without such.
    """

    states: list
    scores: list

    @property
    def count(self) -> int:
        """Layers, without the embedding."""
        return len(self.states) - 1

    @property
    def width(self) -> int | None:
        """D of all layers; None where they differ."""
        widths = {states.shape[-1] for states in self.states[1:]}
        return widths.pop() if len(widths) == 1 else None

    @property
    def num_heads(self) -> int | None:
        """H of all layers; None where there are no scores, or they differ."""
        counts = {scores.shape[1] for scores in self.scores}
        return counts.pop() if len(counts) == 1 else None


def show_layers(network: Backbone, batch: Mapping[str, Any], training=None) -> Layers:
    """Returns the layers of a network on rows (B, L); it takes what it reads of the batch."""
    features = {name: batch[name] for name in {**network.reads, **network.may_read} if name in batch}
    states = layers_of(network, features, training)
    return Layers(states, network.attention_scores(features, states))


class TeacherLayers(Objective):
    """The mean squares by which embeddings, states and attention scores differ from those of a teacher, in each text, and of texts
    the mean. Padding counts in none of them.

    - `embeddings`: MSE(E_S W_e, E_T) (equation 9);
    - `hidden`: the sum over pairs of layers of MSE(H_S W_h, H_T) (equation 8), W_h the same for all layers;
    - `attention`: the sum over pairs of layers of the mean over heads of MSE(A_S, A_T), A the scores before the softmax (equation 7),
      over the tokens that both let a token attend to. (The authors' code sets other scores to 0 in both.)

    W_e and W_h are learnt, and there where the widths differ. (The authors' code has one matrix, with a bias, for both.)

    Args:
        teacher: a built network, which must not be trainable. It is no part of the objective.
        parts: which of `PARTS`.
        pairs: (layer of the network, layer of the teacher), counted from 1.
        widths: of the states of both, (network, teacher), or None where `hidden` is no part.
        embedding_widths: likewise of the embeddings.
        stddev: of the initial projections.
    """

    def __init__(
        self, teacher: Backbone, parts: Sequence[str], pairs: Pairs, widths: tuple[int, int] | None,
        embedding_widths: tuple[int, int] | None, stddev: float = 0.02, **kwargs,
    ):  # fmt: skip
        super().__init__(**kwargs)
        self._teacher, self.lessons, self.pairs = Frozen(teacher), tuple(parts), pairs
        self.hidden_projection = projection(widths, stddev, "hidden_projection")
        self.embedding_projection = projection(embedding_widths, stddev, "embedding_projection")

    @property
    def reads(self):
        return {"token_ids": Feature((None,))}

    @property
    def needs(self):
        network = self._teacher.network
        return {**self.reads, **network.reads, **network.may_read}

    @property
    def fixed_weights(self):
        return self._teacher.network.weights

    @property
    def description(self) -> str:
        """Says who learns what of whom, for the log and the model card."""
        pairs = ", ".join(f"{ours} from {theirs}" for ours, theirs in self.pairs)
        return f"{', '.join(self.lessons)}; layers {pairs} of the teacher's"

    def teach(self, batch):
        shown = show_layers(self._teacher.network, sequences(batch), training=False)
        return {"states": shown.states, "scores": shown.scores}

    def forward(self, backbone, batch, training=None):
        teacher = Layers(**{name: [ops.stop_gradient(x) for x in found] for name, found in self.teach(batch).items()})
        return {"network": show_layers(backbone, sequences(batch), training), "teacher": teacher}

    def score(self, outputs, batch, backbone):
        ours, theirs = outputs["network"], outputs["teacher"]
        real = ops.cast(rows(batch)["padding_mask"], "float32")  # (R, L)
        weights = row_weights(batch)  # (R,)
        differences = {
            EMBEDDINGS: lambda: state_difference(ours.states[0], theirs.states[0], real, self.embedding_projection),
            HIDDEN: lambda: sum(
                state_difference(ours.states[m], theirs.states[n], real, self.hidden_projection) for m, n in self.pairs
            ),
            ATTENTION: lambda: sum(
                score_difference(ours.scores[m - 1], theirs.scores[n - 1], real) for m, n in self.pairs
            ),
        }
        total = ops.sum(weights)
        return {part: (ops.sum(differences[part]() * weights), total) for part in self.lessons}, {}


def projection(widths: tuple[int, int] | None, stddev: float, name: str) -> keras.layers.Dense | None:
    """Returns a matrix between two widths; None where they are the same."""
    if widths is None or widths[0] == widths[1]:
        return None
    return keras.layers.Dense(widths[1], use_bias=False, kernel_initializer=truncated_normal(stddev), name=name)


def sequences(batch):
    """Returns the batch with each sequence of an example as a row (R, L)."""
    return batch if len(batch["token_ids"].shape) == 2 else rows(batch)


def state_difference(ours, theirs, real, project=None):
    """Returns the mean square over the real tokens of each row, float32 (R,): states (R, L, D) and (R, L, D'), real (R, L)."""
    ours = ops.cast(project(ours) if project is not None else ours, "float32")
    squares = ops.mean(ops.square(ours - ops.cast(theirs, "float32")), axis=-1)  # (R, L)
    return ops.sum(squares * real, axis=-1) / ops.maximum(ops.sum(real, axis=-1), 1.0)


def score_difference(ours, theirs, real):
    """Returns the mean square over heads and pairs of tokens of each row, float32 (R,).

    Args:
        ours, theirs: (R, H, L, L), low where a token does not attend to another one; such pairs do not count.
        real: (R, L), 1.0 for tokens that are not padding.
    """
    seen = ops.logical_and(ours > MASKED / 2, theirs > MASKED / 2)
    counted = ops.cast(seen, "float32") * ops.expand_dims(real, (1, 3))  # (R, H, L, L)
    squares = ops.square(ours - theirs) * counted
    return ops.sum(squares, axis=(1, 2, 3)) / ops.maximum(ops.sum(counted, axis=(1, 2, 3)), 1.0)
