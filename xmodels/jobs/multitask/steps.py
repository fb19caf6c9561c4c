"""Of which task each step of a joint fine-tuning is (Liu et al., 2019, algorithm 1)."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from xmodels.jobs.pretrain.task_schedule import TaskSchedule
from xmodels.training.finetuning import SHUFFLED


@dataclasses.dataclass(frozen=True)
class MainLast(TaskSchedule):
    """In each stage the steps of one task stand behind those of all others, which stay shuffled (`mix_opt` of the released code).

    Attributes:
        main_task: the task that comes last.
    """

    main_task: str = ""

    def arrange(self, steps):
        return steps[np.argsort(steps == self.tasks.index(self.main_task), kind="stable")]


@dataclasses.dataclass(frozen=True)
class Turns:
    """Each step of a task is followed by one on each set of examples without labels, which all tasks share.

    Attributes:
        schedule: of the steps of the tasks.
        others: the names of these sets.
    """

    schedule: TaskSchedule
    others: tuple[str, ...] = ()

    @property
    def per_step(self) -> int:
        """The steps in which a task learns once."""
        return 1 + len(self.others)

    def share(self, name: str, step: int) -> float:
        """Returns whether a step is of the task or the set; the share of its stream."""
        turn, place = divmod(step, self.per_step)
        return float(self.others[place - 1] == name) if place else self.schedule.share(name, turn)


def batches_of(num_examples: int, batch_size: int) -> int:
    """Returns the batches of an epoch; the last one may be shorter."""
    return -(-num_examples // batch_size)


def epochs_of(
    counts: Mapping[str, int], num_epochs: float, seed: int, main_task: str | None = None, ratio: float | None = None,
    order: str = SHUFFLED,
) -> TaskSchedule:  # fmt: skip
    """Returns the order of the steps: each epoch has the batches of all tasks, shuffled by the seed.

    Args:
        counts: {task: its batches in an epoch}.
        num_epochs: the last one may be a part of an epoch.
        main_task, ratio: an epoch has all batches of this task, and of the others together `ratio` times as many, drawn from theirs.
            Which examples these are goes on from epoch to epoch, so that all have their turn. Without a ratio: all batches.
        order: of `ORDERS`: whether the main task comes last in each epoch.
    """
    stages = []
    for epoch in range(math.ceil(num_epochs)):
        stage = dict(counts)
        if ratio is not None:
            stage = {main_task: counts[main_task], **_some(counts, main_task, ratio, [seed, epoch, 1])}
        stages.append({name: stage.get(name, 0) for name in counts})
    return TaskSchedule(tuple(stages), seed) if order == SHUFFLED else MainLast(tuple(stages), seed, main_task)


def _some(counts: Mapping[str, int], main_task: str, ratio: float, seed: list[int]) -> dict[str, int]:
    """Batches of the tasks beside the main one: as many as are asked for, or all there are."""
    names = [name for name in counts if name != main_task]
    every = np.repeat(np.arange(len(names)), [counts[name] for name in names])
    taken = np.random.default_rng(seed).permutation(every)[: int(ratio * counts[main_task])]
    return {name: int((taken == place).sum()) for place, name in enumerate(names)}
