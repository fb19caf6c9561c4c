"""Published systems. The folder listing is the only registry: adding a file adds the system."""

import difflib
import importlib
import pkgutil
from types import ModuleType

from data_pipelines.errors import UsageError


def names() -> list[str]:
    """The systems there are, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    """The module of a system. Raises a UsageError with the nearest names where there is none."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), 3) or names()
        raise UsageError(f"--system={name}: unknown. Did you mean {' or '.join(near)}? Known: {', '.join(names())}.")
    return importlib.import_module(f"{__name__}.{name}")
