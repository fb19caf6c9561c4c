"""Language models: pretrain, fine-tune, compare and ship them. `xmodels.VERB(...)` is `xmodels VERB ...` of the command line."""

import importlib
import pkgutil
from typing import Any


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name in {module.name for module in pkgutil.iter_modules(__path__)}:
        # `from xmodels import NAME` asks here before it looks for a file; below, all verbs would be imported to find none.
        return importlib.import_module(f"xmodels.{name}")
    api = importlib.import_module("xmodels.api")

    if name == "load":
        return api.load
    if name.startswith("_") or api.options_module(name) is None:
        from data_pipelines.options.declaration import nearest

        raise AttributeError(f"xmodels has no `{name}`.{nearest(name, ['load', *api.verbs()])}")
    return api.function_of(name)


def __dir__() -> list[str]:
    api = importlib.import_module("xmodels.api")

    return ["load", *api.verbs()]
