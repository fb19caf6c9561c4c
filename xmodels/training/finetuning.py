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
class FineTuning:
    """How the weights of a network learn a task. The defaults: all alike, by the numbers of the flags.

    Attributes:
        groups: weights that learn apart; weights of no group learn by the numbers of the flags.
        loss_weights: {name of a loss: its weight}, see `LossWeights`. A weight of `AUXILIARY_LM` other than 0 makes the pretrained
            head of a language model learn beside the task.
        auxiliary_lm_mean: whether the loss of that head is a mean over all `TOKENS` of a batch, or over the tokens of each text and
            then over texts, `SEQUENCES`.
        network: {field: value} in which the configuration of the network differs from that of its pretraining, such as rates of
            dropout; none that changes the shape of a weight.
        phases: what comes before, in order.
    """

    groups: tuple[Group, ...] = ()
    loss_weights: Mapping[str, float | Callable] = dataclasses.field(default_factory=dict)
    auxiliary_lm_mean: str = SEQUENCES
    network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    phases: tuple[Phase, ...] = ()

    @property
    def models_language(self) -> bool:
        """Whether the head of the pretrained language model learns too."""
        weight = self.loss_weights.get(AUXILIARY_LM, 0.0)
        return callable(weight) or weight != 0.0
