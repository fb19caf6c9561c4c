"""Looks up tasks: a task is a folder of `xmodels/tasks`, and the folders are the only registry.

Importing this file and listing names imports nothing heavy, so that `--help` can do it.
"""

import ast
import functools
import importlib
import importlib.util
import os
import pkgutil
import re
from types import ModuleType

from data_pipelines.options.declaration import Option, merge_options, options_of

FILES = ("task", "read", "score", "answer", "serve")
FINETUNE, EVALUATE, PREDICT, EXPORT = (
    "FinetuneOptions",
    "EvaluateOptions",
    "PredictOptions",
    "ExportOptions",
)  # in `options.py`
TASKS, BASE = "xmodels.tasks", "xmodels.tasks.base"
JOINT_HEAD = "task_"  # prefix of the name of a head in a checkpoint of several tasks that were trained together


def names(file: str | None = None) -> list[str]:
    """Returns all tasks, sorted; with `file`, those whose folder has that file. Tasks for fine-tuning have the file `task`."""
    folders = [found.name for found in pkgutil.iter_modules([_folder()]) if found.ispkg and found.name != "base"]
    return [name for name in folders if file is None or os.path.isfile(_path(name, file))]


def options_class(task: str, verb: str) -> type | None:
    """Returns the dataclass of the flags that a task has of its own for a verb, such as FINETUNE; None if it has none."""
    return getattr(own(task, "options"), verb, None)


def able(ability: str) -> list[str]:
    """Returns the tasks whose `FinetuneOptions` say yes to an attribute, such as JOINS."""
    return [name for name in names("task") if getattr(options_class(name, FINETUNE), ability, False)]


@functools.cache
def all_options(verb: str) -> type:
    """Returns a dataclass with the flags that any task has for a verb."""
    return merge_options(f"Task{verb}", filter(None, (options_class(name, verb) for name in names())))


def own_flags(task: str, verb: str) -> dict[str, Option]:
    """Returns the flags of `options_class` by name."""
    found = options_class(task, verb)
    return {each.name: each for each in options_of(found)} if found else {}


def all_flags(verb: str) -> dict[str, Option]:
    """Returns the flags of `all_options` by name."""
    return {each.name: each for each in options_of(all_options(verb))}


def summary(name: str) -> str:
    """Describes a task in a line: the first line of the docstring of its first file. Reads the file and imports nothing."""
    path = next(path for path in (_path(name, file) for file in FILES) if os.path.isfile(path))
    with open(path, encoding="utf-8") as file:
        line = ast.get_docstring(ast.parse(file.read())).partition("\n")[0]
    return re.sub(r" \([^()]*\)\.$", ".", line)  # without the citation


def load_part(task: str, file: str) -> "Part":
    """Returns one of FILES of a task. Names it does not define come from the task that it extends, or else from `base`."""
    return Part(task, file)


def own(task: str, file: str) -> ModuleType | None:
    """Returns a file that not every task has, such as `early`, of the folder of a task; None if it has none. Nothing is inherited."""
    return _module(f"{TASKS}.{task}.{file}") if os.path.isfile(_path(task, file)) else None


def task_class(name: str) -> type | None:
    """Returns the class that `xmodels/tasks/NAME/task.py` defines; None if there is none."""
    from xmodels.tasks.base.task import Task

    module = _module(f"{TASKS}.{name}.task") if isinstance(name, str) and name in names("task") else None
    own = [c for c in vars(module).values() if _is_own(c, Task, module)] if module else []
    return own[-1] if own else None


class Part:
    """The names that a file of a task defines, falling back to the files of the tasks that it extends and to `base`.

    A task whose class extends that of another task inherits all of that task's files.
    """

    def __init__(self, task: str, file: str):
        modules = (c.__module__ for c in getattr(task_class(task), "__mro__", ()))
        parents = [name.removesuffix(".task") for name in modules if name.endswith(".task")]
        folders = [f"{TASKS}.{task}", *(p for p in parents if p.startswith(f"{TASKS}.")), BASE]
        self._modules = [m for m in (_module(f"{folder}.{file}") for folder in dict.fromkeys(folders)) if m]

    def __getattr__(self, name: str):
        for module in self._modules:
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)


def _folder() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _path(task: str, file: str) -> str:
    return os.path.join(_folder(), task, f"{file}.py")


def _module(path: str):
    return importlib.import_module(path) if importlib.util.find_spec(path) else None


def _is_own(value, base: type, module) -> bool:
    return isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
