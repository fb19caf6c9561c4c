"""The tasks of `multitask --tasks_file`, each as a case of its own."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import changed_options, create
from data_pipelines.strict_yaml import variables_of
from xmodels.doctor.case import Case, case_of
from xmodels.doctor.findings import Check, Finding, findings
from xmodels.jobs.multitask import options as multitask
from xmodels.jobs.multitask.tasks_file import read_tasks_file, task_options

Checks = list[tuple[str, Check]]


def read(flags: Mapping[str, Any], cases: dict[str, Case]) -> str:
    """Fills `cases` with {name: the case of a task}; says which there are.

    Raises:
        UsageError, DataError: a flag is none of `multitask`, or the file of tasks is wrong.
    """
    own = {each.name for each in dataclasses.fields(multitask.Options)}
    if others := sorted(set(flags) - own):
        raise UsageError(f"--{others[0]}: belongs into the file of --tasks_file, or is no flag of `multitask`.")
    options = create(multitask.Options, {"init_checkpoint": "", "model_dir": "", **flags})
    plan = read_tasks_file(options.tasks_file, variables_of(options.set))
    cases |= {name: case_of(changed_options(task_options(options, plan, name))) for name in plan.tasks}
    return f"{len(cases)} tasks: {', '.join(cases)}"


def of_each(cases: Mapping[str, Case], checks: Checks) -> Iterator[Finding]:
    """Yields the findings of the same checks for every task, whose names they bear."""
    for name, case in cases.items():
        for finding in findings(checks, case):
            yield dataclasses.replace(finding, name=f"{name}: {finding.name}")
