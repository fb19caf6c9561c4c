"""`--task_schedule` and `--task_steps`: of which task a step is (Sun et al., 2020, arXiv 1907.12412, section 3 and table 7).

A run is a list of stages, and each stage says how many steps it has of each task. Within a stage the task of a step is drawn, with a
probability in proportion to the steps that are left of each. All is a function of the seed and the stages up to that step, so a
resumed run goes on as it would have, and stages may be added behind those that are done.
"""

import dataclasses
import difflib
import functools
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from data_pipelines.errors import UsageError

KINDS = ("continual", "sequential", "joint")
EXAMPLE = "--task_schedule=masking:20000/masking:10000,capitals:30000"
STEPS_EXAMPLE = "--task_steps=masking:50000,capitals:50000"
MOST_STEPS = 1 << 31


@dataclasses.dataclass(frozen=True)
class TaskSchedule:
    """The stages of a run.

    Attributes:
        stages: {task: steps} of each.
        seed: draws the order within a stage.
    """

    stages: tuple[Mapping[str, int], ...]
    seed: int = 0

    @property
    def tasks(self) -> list[str]:
        """The tasks in the order in which they join."""
        return list(dict.fromkeys(name for stage in self.stages for name in stage))

    @property
    def totals(self) -> dict[str, int]:
        """{task: its steps in all stages}."""
        return {name: sum(stage.get(name, 0) for stage in self.stages) for name in self.tasks}

    @property
    def num_steps(self) -> int:
        return sum(self.totals.values())

    @functools.cached_property
    def _ends(self) -> list[int]:
        return np.cumsum([sum(stage.values()) for stage in self.stages]).tolist()

    @functools.cached_property
    def _orders(self) -> dict[int, np.ndarray]:
        return {}

    def _order(self, index: int) -> np.ndarray:
        """Returns the tasks of the steps of a stage, as numbers. To draw in proportion to what is left is to shuffle."""
        if index not in self._orders:
            counts = [self.stages[index].get(name, 0) for name in self.tasks]
            steps = np.repeat(np.arange(len(counts), dtype=np.uint8), counts)
            self._orders[index] = self.arrange(np.random.default_rng([self.seed, index]).permutation(steps))
        return self._orders[index]

    def arrange(self, steps: np.ndarray) -> np.ndarray:
        """Returns the steps of a stage in the order in which they are taken, from a shuffled one; by default that."""
        return steps

    def task_at(self, step: int) -> str:
        """Returns the task of the step behind `step` updates; beyond the end that of the last one."""
        step = min(step, self.num_steps - 1)
        index = int(np.searchsorted(self._ends, step, side="right"))
        first = self._ends[index - 1] if index else 0
        return self.tasks[self._order(index)[step - first]]

    def share(self, task: str, step: int) -> float:
        """Returns whether a step is of the task; the share of its stream."""
        return float(self.task_at(step) == task)

    def __str__(self) -> str:
        """Works as `--task_schedule` takes it."""
        return "/".join(",".join(f"{name}:{steps}" for name, steps in stage.items()) for stage in self.stages)

    def describe(self) -> str:
        """Returns what the plan of a run says."""
        parts = [" + ".join(f"{name} {steps:,}" for name, steps in stage.items()) for stage in self.stages]
        return f"Steps of each task, stage by stage: {'; '.join(parts)}."

    def extends(self, before: str) -> bool:
        """Returns whether the stages `before`, as `__str__` writes them, are the first ones of these."""
        return f"{self}/".startswith(f"{before}/")


def make_schedule(
    schedule: str, steps: str | None, num_steps: int | None, known: Mapping[str, object], usual: tuple[str, ...],
    default_steps: int, seed: int = 0, missing: Mapping[str, str] = MappingProxyType({}),
    examples: Mapping[str, int] | None = None,
) -> TaskSchedule:  # fmt: skip
    """Returns the schedule that the flags ask for.

    Args:
        schedule: --task_schedule: one of `KINDS`, or stages.
        steps: --task_steps: steps of each task, or of named ones in the order in which they join.
        num_steps: --num_train_steps.
        known: the tasks that there are; names are looked at only.
        usual: the tasks of a run that names none, in the order in which they join.
        default_steps: updates in all, where no flag says it.
        missing: tasks that these records do not give -> what they want.
        examples: of the usual tasks; where no flag says it, their steps are in proportion. None gives all as many.

    Raises:
        UsageError: a task is unknown or named twice, a number is none, or sums contradict each other.
    """
    counts = functools.partial(_counts, known=known, missing=missing)
    budgets = _budgets(steps, num_steps, counts, usual, default_steps, examples)
    if schedule in KINDS:
        found = {"continual": continual, "sequential": sequential, "joint": joint}[schedule](budgets)
        stages = tuple(
            stage for each in found if (stage := {name: count for name, count in each.items() if count}) or not each
        )
    else:
        if ":" not in schedule:
            raise UsageError(f"--task_schedule={schedule}: expected {', '.join(KINDS)}, or stages, such as {EXAMPLE}.")
        stages = tuple(counts(f"--task_schedule={schedule}", part, EXAMPLE) for part in schedule.split("/"))
    made = TaskSchedule(stages, seed)
    if steps is not None:
        _check_sums(schedule, made.totals, budgets)
    if num_steps not in (None, made.num_steps):
        raise UsageError(
            f"--num_train_steps={num_steps}: the steps of --task_schedule and --task_steps add up to {made.num_steps:,}. Leave it out."
        )
    return made


def continual(budgets: Mapping[str, int]) -> list[dict[str, int]]:
    """Returns each task joins in a stage of its own, where the old ones go on. Of T tasks each does 1 / (T + 1) of its steps in
    each later stage, the rest in its own: of 50,000 steps and four tasks 20, 10, 10, 10 thousand for the first (table 7)."""
    names = list(budgets)
    found = []
    for index, new in enumerate(names):
        later = len(names) - 1 - index
        stage = {name: budgets[name] // (len(names) + 1) for name in names[:index]}
        found.append({**stage, new: budgets[new] - later * (budgets[new] // (len(names) + 1))})
    return found


def sequential(budgets: Mapping[str, int]) -> list[dict[str, int]]:
    """Returns one task after the other; the paper's baseline, which forgets."""
    return [{name: count} for name, count in budgets.items()]


def joint(budgets: Mapping[str, int]) -> list[dict[str, int]]:
    """Returns all tasks together from the beginning; the paper's baseline of multi-task learning."""
    return [dict(budgets)]


def _budgets(steps, num_steps, counts, usual, default_steps, examples) -> dict[str, int]:
    if steps is not None and not steps.isdigit():
        return counts(f"--task_steps={steps}", steps, STEPS_EXAMPLE)
    if steps is not None:
        if int(steps) < 1:
            raise UsageError(f"--task_steps={steps}: must be at least 1.")
        return dict.fromkeys(usual, int(steps))
    total = num_steps or default_steps
    each, rest = divmod(total, len(usual))
    if examples is None or each == 0:
        return {name: each + (index < rest) for index, name in enumerate(usual)}
    # One step each, and the rest by examples, rounded so that the sum is right.
    shares = np.cumsum([examples[name] for name in usual]) / sum(examples[name] for name in usual)
    ends = np.rint(shares * (total - len(usual))).astype(int)
    return {name: int(1 + more) for name, more in zip(usual, np.diff(ends, prepend=0), strict=True)}


def _counts(flag: str, text: str, example: str, known, missing: Mapping[str, str]) -> dict[str, int]:
    """Returns {task: steps} of `NAME:STEPS,...`."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, count = part.strip().partition(":")
        if not count.isdigit() or not 0 < int(count) < MOST_STEPS:
            raise UsageError(f"{flag}: {part!r} is no NAME:STEPS; expected such as {example}.")
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *missing], 1, 0.6)
            hint = f" Did you mean {near[0]}?" if near else ""
            hint = f" It wants {missing[name]}." if name in missing else hint
            raise UsageError(f"{flag}: no task {name!r} is there for these records.{hint} Known: {', '.join(known)}.")
        if name in found:
            raise UsageError(f"{flag}: {name} stands twice in {text!r}.")
        found[name] = int(count)
    return found


def _check_sums(schedule: str, totals: Mapping[str, int], budgets: Mapping[str, int]) -> None:
    """Raises a UsageError where the stages do not give each task its steps."""
    wrong = [
        f"{name} {totals.get(name, 0):,} in the stages, {budgets.get(name, 0):,} in --task_steps"
        for name in dict.fromkeys([*totals, *budgets])
        if totals.get(name, 0) != budgets.get(name, 0)
    ]
    if wrong:
        raise UsageError(
            f"--task_schedule={schedule}: the stages do not give each task its steps ({'; '.join(wrong)})."
        )
