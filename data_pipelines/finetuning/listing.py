"""The values of `create_finetuning_data --task`: the files of `finetuning/tasks`. No heavy imports."""

import importlib

from data_pipelines.options.declaration import modules_of, summary_of

PACKAGE = "data_pipelines.finetuning.tasks"
TASKS = modules_of(PACKAGE)


def meaning(name: str) -> str:
    """Returns the first line of the file of a task, which is not imported for it."""
    return summary_of(f"{PACKAGE}.{name}")


def task_class(name: str) -> type:
    """Returns the `finetuning.task.Task` of a name of TASKS."""
    module = importlib.import_module(f"{PACKAGE}.{name}")
    return next(kind for kind in vars(module).values() if isinstance(kind, type) and getattr(kind, "name", "") == name)


def owner_of(flag: str) -> str | None:
    """Returns the task that alone has a flag of `create_finetuning_data`; None if several have it."""
    return next((name for name in TASKS if flag in task_class(name).own_flags), None)
