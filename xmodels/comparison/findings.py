"""What came out: scores of each arm and task, differences, what each system's own objective reached, and what it cost."""

import dataclasses
import math
import os
import statistics
from collections.abc import Sequence

import numpy as np
from safetensors import safe_open

from xmodels.comparison.arms import Arm, list_arms
from xmodels.comparison.budget import StepCost, measure_step
from xmodels.comparison.labelled import get_flag, read_rows
from xmodels.comparison.plan import BEST, Plan, Task
from xmodels.comparison.planning import DEV, Agenda, Learnt, Pretrained
from xmodels.comparison.stages import FINETUNE, Stage
from xmodels.comparison.statistics import Difference, correctness, holm, mean_and_spread, paired_test
from xmodels.comparison.workspace import Workspace
from xmodels.models.folder import WEIGHTS
from xmodels.runs.baselines import Baselines
from xmodels.runs.folder import BACKBONE
from xmodels.training.watching.progress import measure_of


@dataclasses.dataclass(frozen=True)
class Score:
    """What an arm reached on a task.

    Attributes:
        right: (S, N), 1 where a seed is right about a test example.
        seeds: of the fine-tunings; none of arms that draw nothing.
        dev: the mean accuracy on the development rows, of what was chosen.
        chosen: the numbers that these chose.
        difference: to the reference; None of the reference itself.
    """

    right: np.ndarray
    seeds: list[int]
    dev: float
    chosen: dict
    difference: Difference | None = None

    @property
    def accuracies(self) -> list[float]:
        return self.right.mean(axis=1).tolist()

    @property
    def summary(self) -> tuple[float, float | None]:
        return mean_and_spread(self.accuracies)


@dataclasses.dataclass(frozen=True)
class Objective:
    """How far a system came in its own objective, on held-out text.

    Attributes:
        losses, accuracies: of each pretraining; there may be no accuracies.
        token_losses: the parts of the losses that `measure` belongs to, without those of further objectives, such as the order of
            segments.
        measure: the accuracy that counting stands beside; None where there is none, as of word vectors.
        curve: (step, loss, accuracy or NaN) of the evaluations of the first pretraining.
    """

    losses: list[float]
    token_losses: list[float]
    measure: str | None
    accuracies: list[float]
    baselines: Baselines | None
    curve: list[tuple[int, float, float]]


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a pretraining took.

    Attributes:
        num_steps, tokens: of one pretraining.
        step: as the whole runs measured it, which under a budget of minutes is what the probe foretold.
        processor_minutes, minutes: of the commands of the probe, all candidates and seeds, with their start and evaluations.
    """

    parameters: int
    num_steps: int
    tokens: int
    step: StepCost
    processor_minutes: float
    minutes: float


@dataclasses.dataclass(frozen=True)
class Findings:
    """All of it.

    Attributes:
        scores: {(arm, task): what it reached}, of those that are whole.
        finetuning_minutes: {arm: processor minutes of its fine-tunings}.
        failed: stages that ended with an error.
    """

    arms: list[Arm]
    scores: dict[tuple[str, str], Score]
    reference: str | None
    num_tests: int
    objectives: dict[str, Objective]
    costs: dict[str, Cost]
    finetuning_minutes: dict[str, float]
    failed: list[Stage]


def gather(plan: Plan, known: Workspace, agenda: Agenda) -> Findings:
    """Reads what the stages have written."""
    scores, truths = {}, {name: _truth(plan, task) for name, task in plan.tasks.items()}
    for key, learnt in agenda.learnt.items():
        if (found := _score(known, learnt, truths[learnt.task])) is not None:
            scores[key] = found
    reference = _reference(plan, scores)
    scores = _compare_with_reference(scores, reference)
    objectives, costs = {}, {}
    for name, each in agenda.pretrained.items():
        if each.runs and all(known.mark(one) for one in each.runs):
            objectives[name], costs[name] = _objective(known, each.runs), _cost(known, each)
    tuned: dict[str, float] = {}
    for one in agenda.stages:
        if one.kind == FINETUNE and (mark := known.mark(one)):
            tuned[one.arm] = tuned.get(one.arm, 0.0) + mark["processor_seconds"] / 60
    tests = sum(score.difference is not None for score in scores.values())
    failed = [one for one in agenda.stages if known.failure(one)]
    return Findings(list_arms(plan), scores, reference, tests, objectives, costs, tuned, failed)


def _truth(plan: Plan, task: Task) -> list[str]:
    return [row.label for row in read_rows(task.test, task.columns(), get_flag(plan, task, "encoding"))]


def _score(known: Workspace, learnt: Learnt, truth: Sequence[str]) -> Score | None:
    """Returns the score; None while something is missing."""
    if learnt.baselines:
        found = [known.answers(one) for one in learnt.baselines]
        if not all(found):
            return None
        right = correctness([each["labels"] for each in found], truth)
        return Score(right, [], statistics.mean(each["dev"] for each in found), found[0]["chosen"])
    answers = [known.labels(answered) for _, _, answered in learnt.runs]
    if not answers or any(each is None for each in answers):
        return None
    dev = statistics.mean(known.results(run)[DEV] for _, run, _ in learnt.runs)
    seeds = [seed for seed, _, _ in learnt.runs]
    return Score(correctness(answers, truth), seeds, dev, learnt.tried[learnt.chosen][0])


def _reference(plan: Plan, scores: dict[tuple[str, str], Score]) -> str | None:
    """Returns the arm to compare with: the plan's, or that with the best mean over the development files of all tasks."""
    whole = [arm.name for arm in list_arms(plan) if all((arm.name, task) in scores for task in plan.tasks)]
    if plan.reference != BEST:
        return plan.reference if plan.reference in whole else None
    return max(whole, key=lambda name: statistics.mean(scores[name, task].dev for task in plan.tasks), default=None)


def _compare_with_reference(
    scores: dict[tuple[str, str], Score], reference: str | None
) -> dict[tuple[str, str], Score]:
    """Returns the scores with their differences to the reference, corrected for the number of comparisons on the page."""
    if reference is None:
        return scores
    found = {
        (arm, task): paired_test(score.right, scores[reference, task].right)
        for (arm, task), score in scores.items()
        if arm != reference
    }
    corrected = holm(found)
    return {key: dataclasses.replace(score, difference=corrected.get(key)) for key, score in scores.items()}


def _objective(known: Workspace, runs: Sequence[Stage]) -> Objective:
    baselines = Baselines.read(known.output(runs[0]))
    measure = baselines.measure if baselines else None
    curves = []
    for one in runs:
        evaluations = [entry for entry in known.entries(one) if entry["kind"] == "evaluation"]
        curves.append([(entry["step"], entry["loss"], _value_of_measure(entry, measure)) for entry in evaluations])
    last = [curve[-1][2] for curve in curves if curve and not math.isnan(curve[-1][2])]
    results = [known.results(one) for one in runs]
    part = (measure or "").removesuffix("_accuracy")
    losses, token_losses = [each["loss"] for each in results], [each.get(part, each["loss"]) for each in results]
    return Objective(losses, token_losses, measure, last, baselines, curves[0])


def _value_of_measure(entry: dict, measure: str | None) -> float:
    values = [value for name, value in entry.items() if measure and measure_of(name) == measure]
    return values[-1] if values else math.nan


def _cost(known: Workspace, each: Pretrained) -> Cost:
    marks = [mark for one in each.stages if (mark := known.mark(one))]
    if each.probe is not None and (mark := known.mark(each.probe)):
        marks.append(mark)
    try:
        step = measure_step([entry for one in each.runs for entry in known.entries(one)], each.tokens)
    except ValueError:  # a run of a few steps
        step = each.cost or StepCost(0, 0, 0, each.tokens)
    return Cost(
        _parameters(known.output(each.runs[0])), each.num_steps, each.num_steps * each.tokens, step,
        sum(mark["processor_seconds"] for mark in marks) / 60, sum(mark["seconds"] for mark in marks) / 60,
    )  # fmt: skip


def _parameters(run: str) -> int:
    """Returns how many weights the network and its heads have."""
    with safe_open(os.path.join(run, BACKBONE, WEIGHTS), "numpy") as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
