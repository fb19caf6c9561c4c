"""Tasks, and ways to read texts for them, by the names of their files. The folders are the only registries."""

import importlib
import importlib.util

from xmodels.tasks.base import Task


def task_class(name: str) -> type[Task] | None:
    """The task that `xmodels/tasks/NAME.py` defines; None where there is none."""
    path = f"xmodels.tasks.{name}"
    if not name.isidentifier() or name == "base" or importlib.util.find_spec(path) is None:
        return None
    module = importlib.import_module(path)
    own = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Task) and c.__module__ == path]
    return own[-1] if own else None


def reading_class(network: type):
    """How a class of networks reads texts that it answers: `xmodels/tasks/readings/NAME.py`, as its `reading` names it.

    None where it names none.
    """
    name = getattr(network, "reading", None)
    return importlib.import_module(f"xmodels.tasks.readings.{name}").Reading if name else None
