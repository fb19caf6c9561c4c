"""Formats of checkpoints that one network has: `NAME:PATH` is read by `sources/NAME.py`. The folder listing is the registry.

A file has `MODEL`, the name of the network, `TITLE`, what the help says of it, and `read(path, allow_pickle)`, which returns a
`Checkpoint`; `write(path, loaded)`, which fills a new folder, if the format is written too; `LACKS`, ids of tokens for which it has no
rows, if there are some.
"""

import ast
import importlib
import os
import pkgutil
from types import ModuleType

from xmodels.conversion import sources


def names() -> list[str]:
    """Returns the names of these formats, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(sources.__path__))


def load(name: str) -> ModuleType:
    """Returns the module of a format."""
    return importlib.import_module(f"{sources.__name__}.{name}")


def titles() -> dict[str, str]:
    """Returns the `TITLE` of each format by its name. Reads the files and imports none of them."""
    return {name: _title(os.path.join(sources.__path__[0], f"{name}.py")) for name in names()}


def _title(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        body = ast.parse(file.read()).body
    return next(
        ast.literal_eval(x.value) for x in body if isinstance(x, ast.Assign) and ast.unparse(x.targets[0]) == "TITLE"
    )
