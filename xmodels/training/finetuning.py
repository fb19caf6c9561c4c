"""A fine-tuning recipe: which weights learn when and how, by which losses, after what."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from xmodels.training.optimizers.groups import Group

AUXILIARY_LM = "auxiliary_lm"  # the loss of language modelling beside that of the task
TOKENS, SEQUENCES = "tokens", "sequences"


@dataclasses.dataclass(frozen=True)
class Phase:
    """A fine-tuning that is finished before the one that needs it begins.

    It is a run in the folder `name` below that of the run that needs it, so both resume at the border and inside of the phases.

    Attributes:
        name: of the folder.
        changes: {flag: value} in which its flags differ from those of the whole.
    """

    name: str
    changes: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class OtherExamples:
    """Examples beside the labelled ones, such as texts without labels, in steps of their own.

    Attributes:
        objective: task -> the `Objective` that learns from them; it may share layers of the task.
        source: (reader of the task, tokenizer) -> the examples, an `ArraySource`.
        share: their steps for each step of the task.
    """

    objective: Callable[[Any], Any]
    source: Callable[[Any, Any], Any]
    share: float = 1.0


@dataclasses.dataclass(frozen=True)
class FineTuning:
    """How the weights of a network learn a task. The defaults: all alike, by the numbers of the flags.

    Attributes:
        groups: weights that learn apart; weights of no group learn by the numbers of the flags.
        loss_weights: {name of a loss: its weight}, see `LossWeights`. A weight of `AUXILIARY_LM` other than 0 makes the pretrained
            head of a language model learn beside the task.
        auxiliary_lm_mean: whether the loss of that head is a mean over all `TOKENS` of a batch, or over the tokens of each text and
            then over texts, `SEQUENCES`.
        streams: {name: `OtherExamples`} of what is learnt beside the task. An epoch is one of the labelled examples.
        network: {field: value} in which the configuration of the network differs from that of its pretraining, such as rates of
            dropout; none that changes the shape of a weight.
        phases: what comes before, in order.
    """

    groups: tuple[Group, ...] = ()
    loss_weights: Mapping[str, float | Callable] = dataclasses.field(default_factory=dict)
    auxiliary_lm_mean: str = SEQUENCES
    streams: Mapping[str, OtherExamples] = dataclasses.field(default_factory=dict)
    network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    phases: tuple[Phase, ...] = ()

    @property
    def steps_per_step(self) -> float:
        """The steps in which the task learns once: 1, and the shares of all other examples."""
        return 1.0 + sum(each.share for each in self.streams.values())

    @property
    def models_language(self) -> bool:
        """Whether the head of the pretrained language model learns too."""
        weight = self.loss_weights.get(AUXILIARY_LM, 0.0)
        return callable(weight) or weight != 0.0
