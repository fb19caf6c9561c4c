"""The file of `multitask --tasks_file`: which tasks are learnt together, from which files, with which numbers."""

import dataclasses
import math
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any

from data_pipelines import strict_yaml
from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import Option, options_of
from data_pipelines.schema import Constraint, convert, fields, one_of
from xmodels.comparison.checks import Lined
from xmodels.jobs.finetune import options as finetune
from xmodels.jobs.multitask import options as multitask
from xmodels.tasks.base import find
from xmodels.tasks.base.options import TemperatureOptions
from xmodels.training.finetuning import AUXILIARY_FIRST, ORDERS, SHUFFLED, Joint
from xmodels.training.mixture import EQUAL, Mixture

FILES = ("train_file", "data_dir", "eval_file", "test_file")
OF_ANY_TASK = (
    "task", *FILES, "text_column", "text_pair_column", "label_column", "on_bad_row", "max_seq_length", "train_batch_size",
    "train_fraction", "num_train_examples",
)  # fmt: skip
SHARED = ("freeze_backbone",)  # said of the network, which all tasks have in common
NAME = r"[A-Za-z][A-Za-z0-9_]*"  # a folder, and a part of the names of weights
OF_THE_RUN = ("backbone", "checkpoints", "nonfinite", "pictures", "teacher", "tensorboard")  # folders there
ADVICE = "docs/mt_dnn.md shows such a file, docs/t5.md one with a mixture."


@dataclasses.dataclass(frozen=True)
class TasksFile:
    """What the file holds.

    Attributes:
        tasks: {name: flags of `finetune`}: `OF_ANY_TASK`, and the own ones of tasks that can be learnt together.
        defaults: the same flags, for all tasks that do not say otherwise.
        main_task, ratio, order, mixture: as in `Joint`.
    """

    tasks: dict[str, dict[str, Any]]
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    main_task: str | None = None
    ratio: Annotated[float, Constraint(lambda value: 0 < value < math.inf, "a number above 0")] | None = None
    order: one_of(*ORDERS) = SHUFFLED
    mixture: Mixture | None = None

    @property
    def joint(self) -> Joint:
        """How the steps of the tasks follow one another."""
        return Joint(self.main_task, self.ratio, self.order, self.mixture)


def read_tasks_file(path: str, variables: Mapping[str, str]) -> TasksFile:
    """Returns the plan of a file, all of whose keys, values and paths are checked.

    Raises:
        DataError: names the file, the line and the key, what was found and what is expected.
    """
    value, lines = strict_yaml.read(path, variables, "--tasks_file", ADVICE)
    place = Lined(path, verdict="", lines=lines)
    for name in value if isinstance(value, dict) else ():
        if name not in fields(TasksFile):
            raise place.unknown_key_error(name, fields(TasksFile))
    plan = convert(value, TasksFile, place)
    _check_flags(plan.defaults, place.at("defaults"))
    for name, flags in plan.tasks.items():
        here = place.at("tasks").at(name)
        if not re.fullmatch(NAME, name) or name in OF_THE_RUN:
            raise here.fault(
                f"`{here.key}`: a task names a folder of the run, so its name holds letters, digits and `_`, begins with a "
                f"letter, and is none of {', '.join(OF_THE_RUN)}. Found: {name!r:.60}."
            )
        _check_flags(flags, here)
        _check_files(plan.defaults | flags, here)
    if len(plan.tasks) < 2:
        raise place.at("tasks").fault(
            "`tasks` must name two tasks at least; one alone is learnt by `xmodels finetune`. Found: "
            f"{', '.join(plan.tasks) or 'none'}."
        )
    _check_ratio(plan, place)
    if plan.mixture is not None:
        _check_mixture(plan, place.at("mixture"))
    return plan


def _check_flags(flags: Mapping[str, Any], place: Lined) -> None:
    known = _known_options()
    for name, value in flags.items():
        here = place.at(name)
        if name not in known:
            raise place.unknown_key_error(name, known)
        try:
            known[name].checked(value)
        except UsageError as error:
            raise here.fault(f"`{here.key}`: {error}") from None


def _check_files(flags: Mapping[str, Any], place: Lined) -> None:
    if not flags.get("train_file") and not flags.get("data_dir"):
        raise place.fault(f"`{place.key}`: has no train_file to learn from.")
    for name in FILES:
        if flags.get(name) and not os.path.exists(flags[name]):
            here = place.at(name)
            raise here.fault(f"`{here.key}`: {flags[name]}: no such file. Check the path.")


def _check_ratio(plan: TasksFile, place: Lined) -> None:
    if plan.main_task is None and (plan.ratio is not None or plan.order == AUXILIARY_FIRST):
        name = "order" if plan.ratio is None else "ratio"
        raise place.at(name).fault(f"`{name}`: belongs to `main_task`, which is missing. Give both, or none.")
    if plan.main_task is not None and plan.ratio is None and plan.order == SHUFFLED:
        raise place.at("main_task").fault(
            "`main_task`: belongs to `ratio`, which is missing. Give both, or none; or `order: auxiliary_first`."
        )
    if plan.main_task is not None and plan.main_task not in plan.tasks:
        raise place.at("main_task").fault(
            f"`main_task`: {plan.main_task!r} is none of `tasks`: {', '.join(plan.tasks)}."
        )


def _check_mixture(plan: TasksFile, place: Lined) -> None:
    mixture = plan.mixture
    if plan.main_task is not None:
        raise place.fault("`mixture`: says how often each task comes, and so does `main_task`. Give one of them.")
    proportional = mixture.rates is None and mixture.kind != EQUAL
    for name in ("limit", "temperature"):
        if getattr(mixture, name) != getattr(Mixture, name) and not proportional:
            here = place.at(name)
            raise here.fault(f"`{here.key}`: belongs to `kind: proportional`, without `rates`. Leave it out.")
    if mixture.rates is None:
        return
    here = place.at("rates")
    if mixture.kind == EQUAL:
        raise place.at("kind").fault("`mixture.kind`: `rates` say how often each task comes. Leave one of them out.")
    if unknown := [name for name in mixture.rates if name not in plan.tasks]:
        raise here.at(unknown[0]).fault(f"`{here.key}`: {unknown[0]!r} is none of `tasks`: {', '.join(plan.tasks)}.")
    if missing := [name for name in plan.tasks if name not in mixture.rates]:
        raise here.fault(f"`{here.key}`: has no number for {', '.join(missing)}. Give each of `tasks` one.")


def _known_options() -> dict[str, Option]:
    own = {flag for name in find.able("JOINS") for flag in find.own_flags(name, find.FINETUNE)}
    own -= {*SHARED, *(each.name for each in options_of(TemperatureOptions))}  # a teacher is of one task alone
    return {each.name: each for each in options_of(finetune.Options) if each.name in own.union(OF_ANY_TASK)}


def task_options(options: multitask.Options, plan: TasksFile, name: str) -> finetune.Options:
    """Returns the options by which `finetune` would learn a task alone: its own, and what it shares with `multitask`."""
    own = {each.name for each in dataclasses.fields(finetune.Options)} - {
        "set"
    }  # which gives other things to each verb
    shared = {each.name: getattr(options, each.name) for each in dataclasses.fields(options) if each.name in own}
    known = _known_options()
    flags = {key: known[key].checked(value) for key, value in (plan.defaults | plan.tasks[name]).items()}
    return finetune.Options(**shared | {"model_dir": os.path.join(options.model_dir, name)} | flags)
