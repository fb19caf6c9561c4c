"""The verbs as Python functions, and `load`; docs/python.md shows them. Imports neither TensorFlow nor Keras until one is called.

The options of a verb are its keyword arguments: `xmodels.pretrain(system="bert", data_dir="records", model_dir="run")` is
`xmodels pretrain --system=bert --data_dir=records --model_dir=run`, and returns the scores.
"""

import importlib
import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import REQUIRED, create, nearest, options_of
from xmodels.jobs import verbs as registry
from xmodels.training.devices.processor import prefer_onednn

if TYPE_CHECKING:
    from xmodels.jobs.open_run import OpenRun

NOT_FROM_PYTHON = ("cloud_tpu", "compare", "doctor", "quickstart", "serve")


def options_module(verb: str) -> str | None:
    """Returns the module with the `Options` of a verb that Python has; None where there is none."""
    return None if verb in NOT_FROM_PYTHON else registry.options_module(verb)


def verbs() -> list[str]:
    """Returns the verbs that Python has."""
    return [verb for verb in registry.names() if verb not in NOT_FROM_PYTHON]


def function_of(verb: str) -> Callable[..., Any]:
    """Returns the function of a verb: its signature names the options, its documentation explains them."""
    found = options_module(verb)
    if found is None:
        raise UsageError(f"xmodels has no `{verb}`.{nearest(verb, verbs())}")
    module = importlib.import_module(found)

    def call(**values: Any) -> Any:
        try:
            options = create(module.Options, values)
        except UsageError as error:
            raise UsageError(f"xmodels.{verb}: {error}") from None
        return registry.run(options)

    declared = options_of(module.Options)
    call.__name__ = call.__qualname__ = verb
    call.__dict__["__signature__"] = inspect.Signature([_parameter(option) for option in declared])
    call.__doc__ = f"{module.Options.__doc__}\n\nArgs:\n" + "\n".join(
        f"    {o.name}: {o.text} {', '.join(o.values)}".rstrip() for o in declared
    )
    return call


def _parameter(option) -> inspect.Parameter:
    default = inspect.Parameter.empty if option.default is REQUIRED else option.default
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option.type)


def load(model_dir: "str | os.PathLike[str]") -> "OpenRun":
    """Returns a finished run or a model folder, opened for use on any backend of Keras.

    Returns:
        An object with `predict(texts)` where the network was fine-tuned or is a masked language model, else with
        `generate(prompts)`.

    Raises:
        CheckpointError: the folder holds neither, or is not whole.
    """
    prefer_onednn()
    from xmodels.jobs.open_run import open_run

    return open_run(str(model_dir))
