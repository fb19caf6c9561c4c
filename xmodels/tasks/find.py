"""Tasks by the names of their files. The folder is the only registry."""

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
