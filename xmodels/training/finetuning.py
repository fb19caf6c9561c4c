"""A fine-tuning recipe: which weights learn when and how, by which losses, after what."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from xmodels.training.mixture import Mixture
from xmodels.training.optimizers.groups import Group

AUXILIARY_LM = "auxiliary_lm"  # the loss of language modelling beside that of the task
TOKENS, SEQUENCES = "tokens", "sequences"
SHUFFLED, AUXILIARY_FIRST = "shuffled", "auxiliary_first"
ORDERS = (SHUFFLED, AUXILIARY_FIRST)
TASK, LANGUAGE_MODEL, TEACHER_LAYERS = "task", "language_model", "teacher_layers"  # what a phase learns


@dataclasses.dataclass(frozen=True)
class Phase:
    """A fine-tuning that is finished before the one that needs it begins.

    It is a run in the folder `name` below that of the run that needs it, so both resume at the border and inside of the phases.

    Attributes:
        name: of the folder.
        changes: {flag: value} in which its flags differ from those of the whole.
        learns: the `TASK`; or on the texts of the rows alone the `LANGUAGE_MODEL` that was pretrained, or the `TEACHER_LAYERS`.
        recipe: the `FineTuning` by which a language model learns, of which groups and fields of the network hold; None for the numbers
            of the flags alone.
    """

    name: str
    changes: Mapping[str, Any]
    learns: str = TASK
    recipe: "FineTuning | None" = None


# Flags of a phase that learns without labels: nothing is scored or chosen, and all layers learn alike from the first step.
UNLABELLED = {
    "eval_file": None, "test_file": None, "early_stopping_patience": None, "eval_every": None, "tune_threshold": False,
    "gradual_unfreezing": 0.0, "layerwise_lr_decay": 1.0, "freeze_backbone": False, "init_head": False,
    "language_model_epochs": 0.0,
}  # fmt: skip


def teacher_layers_phase(num_epochs: float, learning_rate: float | None = None) -> Phase:
    """Returns the phase in which the layers learn from those of a teacher, before its answers are learnt (Jiao et al., 2020, section
    4.3).

    Args:
        learning_rate: its peak; None for that of the task.
    """
    own = {} if learning_rate is None else {"learning_rate": learning_rate}
    return Phase(TEACHER_LAYERS, UNLABELLED | {"num_train_epochs": num_epochs} | own, TEACHER_LAYERS)


def language_model_phase(num_epochs: float, recipe: "FineTuning | None" = None, **changes) -> Phase:
    """Returns the phase in which the language model goes on with the texts of the task before it begins (Howard and Ruder, 2018,
    section 3.2). All its weights learn, by the numbers of the flags.

    Args:
        recipe: as in `Phase`.
        changes: {flag: value} of others, such as a `learning_rate`.
    """
    return Phase(LANGUAGE_MODEL, UNLABELLED | {"num_train_epochs": num_epochs} | changes, LANGUAGE_MODEL, recipe)


@dataclasses.dataclass(frozen=True)
class Joint:
    """What an epoch of several labelled tasks is that one network learns together (Liu et al., 2019, algorithm 1). By default it has
    all batches of all tasks, shuffled.

    Attributes:
        main_task: the task of which every epoch takes all batches, while of the others it takes `ratio` times as many, all together,
            or as many as there are.
        ratio: None where every epoch takes all batches of all tasks.
        order: of the batches of an epoch, of `ORDERS`; `AUXILIARY_FIRST`: those of `main_task` come last.
        mixture: how often each task comes, where that is not as often as it has batches.
    """

    main_task: str | None = None
    ratio: float | None = None
    order: str = SHUFFLED
    mixture: Mixture | None = None

    def describe(self) -> dict[str, Any]:
        """Returns what an epoch is, where it is not all batches of all tasks, shuffled."""
        if self.mixture is not None:
            return {"mixture": self.mixture.describe()}
        return {} if self.main_task is None else {name: getattr(self, name) for name in ("main_task", "ratio", "order")}


@dataclasses.dataclass(frozen=True)
class OtherExamples:
    """Examples beside the labelled ones, such as texts without labels, in steps of their own.

    Attributes:
        objective: task -> the `Objective` that learns from them; it may share layers of the task.
        source: (reader of the task, tokenizer) -> the examples, an `ArraySource`.
        share: their steps for each step of the task.
        together: {name of a task: its `objective`} -> the one of tasks that one network learns together, whose steps each of theirs
            is followed by; None where these leave the examples out.
    """

    objective: Callable[[Any], Any]
    source: Callable[[Any, Any], Any]
    share: float = 1.0
    together: Callable[[Mapping[str, Any]], Any] | None = None


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
        task_loss: the loss of a task that has several, with its numbers, such as `PairLoss` of Siamese networks. Flags of the task
            that are given come first; None for these alone.
        joint: how the steps of several labelled tasks follow one another, where `multitask` learns them together and its file says
            nothing else.
    """

    groups: tuple[Group, ...] = ()
    loss_weights: Mapping[str, float | Callable] = dataclasses.field(default_factory=dict)
    auxiliary_lm_mean: str = SEQUENCES
    streams: Mapping[str, OtherExamples] = dataclasses.field(default_factory=dict)
    network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    phases: tuple[Phase, ...] = ()
    task_loss: Any = None
    joint: Joint = dataclasses.field(default_factory=Joint)

    def then(self, phase: Phase) -> "FineTuning":
        """Returns the recipe with one more phase before the task."""
        return dataclasses.replace(self, phases=(*self.phases, phase))

    @property
    def steps_per_step(self) -> float:
        """The steps in which the task learns once: 1, and the shares of all other examples."""
        return 1.0 + sum(each.share for each in self.streams.values())

    @property
    def models_language(self) -> bool:
        """Whether the head of the pretrained language model learns too."""
        weight = self.loss_weights.get(AUXILIARY_LM, 0.0)
        return callable(weight) or weight != 0.0
