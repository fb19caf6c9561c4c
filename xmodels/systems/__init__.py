"""Published systems. The folder listing is the only registry: adding a file adds the system."""

import ast
import dataclasses
import functools
import importlib
import os
import pkgutil
import re
from types import ModuleType

from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.options import settings
from data_pipelines.options.declaration import nearest
from xmodels.training.finetuning import AUXILIARY_LM, FineTuning


def names() -> list[str]:
    """Returns the systems there are, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    """Returns the module of a system. Raises a UsageError with the nearest names where there is none."""
    check_known(name)
    return importlib.import_module(f"{__name__}.{name}")


def check_known(name: str) -> None:
    """Raises a UsageError with the nearest names where there is no such system. Imports nothing heavy."""
    if name not in names():
        raise UsageError(f"--system={name}: unknown.{nearest(name, names())}")


def summaries() -> dict[str, str]:
    """Returns what each system is: the first paragraph of its file. Reads the files and imports none of them."""
    return {name: " ".join(ast.get_docstring(_parse_module(name)).partition("\n\n")[0].split()) for name in names()}


@functools.cache
def for_baseline(baseline: str) -> str:
    """Returns the system that `xmodels compare` trains as a baseline: the one whose file says so. Imports no system."""
    return next(name for name in names() if baseline in _baselines(_parse_module(name)))


def _baselines(module: ast.Module) -> list[str]:
    assigned = (node for node in module.body if isinstance(node, ast.Assign))
    return [ast.literal_eval(node.value) for node in assigned if ast.unparse(node.targets[0]) == "BASELINE"]


def _parse_module(name: str) -> ast.Module:
    with open(os.path.join(__path__[0], f"{name}.py"), encoding="utf-8") as file:
        return ast.parse(file.read())


def of_model(name: str | None, model: str, source: str) -> ModuleType | None:
    """Returns the system of a model folder; None where no system trains its network.

    Args:
        name: what the folder says; None where it says nothing, so that the network tells.
        model: the file of its network in `xmodels/models`.
        source: names the folder in errors.

    Raises:
        CheckpointError: there is no such system, or it trains another network.
    """
    name = name or default_for(model)
    if name is None:
        return None
    if name not in names():
        raise CheckpointError(f"{source}: `system` is {name!r}, which is unknown. Known: {', '.join(names())}.")
    system = load(name)
    if model_of(system) != model:
        raise CheckpointError(
            f"{source}: `system` is {name!r}, which trains {model_of(system)!r}; `model` is {model!r}."
        )
    return system


@functools.cache
def default_for(model: str) -> str | None:
    """Returns the system of a network that names none: the one of the same name, or else the first that trains it.

    Only files that name the network are imported; all of them take half a second.
    """
    others = (name for name in names() if name != model and mentions(name, model))
    ordered = [model, *others] if model in names() else others
    return next((name for name in ordered if model_of(load(name)) == model), None)


def mentions(name: str, model: str) -> bool:
    """Returns whether the file of a system names the file of a network."""
    with open(os.path.join(__path__[0], f"{name}.py"), encoding="utf-8") as file:
        return re.search(rf"\b{model}\b", file.read()) is not None


def model_of(system: ModuleType) -> str:
    """Returns the file of the network that a system trains."""
    return system.MODEL.__module__.rsplit(".", 1)[-1]


def name_of(system: ModuleType) -> str:
    """Returns the name of a system."""
    return system.__name__.rsplit(".", 1)[-1]


def configuration(system: ModuleType, vocabulary, size: str):
    """Returns the network of a size: what the system's own `configuration` says, or else the numbers of its `SIZES`."""
    make = vars(system).get("configuration")
    if make is not None:
        return make(vocabulary, size)
    return system.MODEL.config_class(vocabulary_size=len(vocabulary), **system.SIZES[size])


def options_class(system: ModuleType) -> type | None:
    """Returns the dataclass of the system's own numbers; None where it has none."""
    return vars(system).get("Options")


def slots_of(system: ModuleType | None, rate: float | None, length: int, stored: int) -> int:
    """Returns the most tokens to hide in a row: `stored`, as the records say, or more where the system needs more room and has a
    function `slots` of the rate and the length."""
    drawn = vars(system).get("slots") if system else None
    return max(stored, drawn(rate, length)) if drawn and rate else stored


def finetuning(system: ModuleType | None, task: str, network, options) -> FineTuning:
    """Returns the recipe by which a network learns a task: the system's own, or by default that of the flags.

    A system whose recipe has numbers of its own, beside the flags, has a dataclass `FineTuningOptions`, which `finetuning` takes last.

    Args:
        system: of the network; None if no system trains it.
        task: a folder of `xmodels/tasks`.
        network: the configuration of the network.
        options: those of `finetune`, with the numbers of the system where no flag is given.

    Raises:
        UsageError: --set names no number of the recipe, or gives it a value of another type.
    """
    make = vars(system).get("finetuning") if system else None
    kind = vars(system).get("FineTuningOptions") if system else None
    given, names = settings.parse(options.set), [field.name for field in dataclasses.fields(kind)] if kind else []
    settings.check_known(given, {f"the recipe of {name_of(system) if system else 'this network'}": names})
    if make is not None:
        return make(task, network, options, *([settings.apply(kind(), given)] if kind else ()))
    return FineTuning(loss_weights={AUXILIARY_LM: options.auxiliary_lm_weight or 0.0})


def recipe(system: ModuleType, vocabulary, records, config, options=None):
    """Returns the recipe of a network of that configuration, with the system's own numbers where it has some."""
    own = {} if options is None else {"options": options}
    return system.recipe(vocabulary, records, config=config, **own)
