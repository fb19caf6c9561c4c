"""Runs the job of a verb: the one path of the command line and of Python.

Imports neither TensorFlow nor Keras; the job does. What can be checked before is checked by the function that `EARLY` names.
"""

import importlib
import os
import sys
from typing import Any

from data_pipelines.corpora import delimiters, encodings
from data_pipelines.options.declaration import modules_of, options_of
from data_pipelines.paths import check_local
from data_pipelines.quiet import NOT_FOR_KERAS, NOT_FOR_TENSORFLOW, keep_loaded, quiet_start
from xmodels.runs.preflight import check_backend
from xmodels.training.devices.processor import prefer_onednn

JOBS, DATA_OPTIONS = "xmodels.jobs", "data_pipelines.options"  # a folder a verb, and a file a verb
NOT_A_PATH = ("tpu", "dask_scheduler")  # may be addresses


def options_module(verb: str) -> str | None:
    """Returns the module with the `Options` of a verb; None where there is no such verb."""
    found = [f"{DATA_OPTIONS}.{verb}"] if verb in modules_of(DATA_OPTIONS) else []
    if verb in modules_of(JOBS) and "options" in modules_of(f"{JOBS}.{verb}"):
        found.append(f"{JOBS}.{verb}.options")
    return next((name for name in found if hasattr(importlib.import_module(name), "Options")), None)


def names() -> list[str]:
    """Returns all verbs, sorted."""
    return sorted(name for package in (JOBS, DATA_OPTIONS) for name in modules_of(package) if options_module(name))


def run(options: Any, own_process: bool = False) -> Any:
    """Does what a dataclass of options asks for; returns what its `JOB` returns.

    Args:
        own_process: whether nobody else uses Keras in this process, so that it need not import all that it can.

    Raises:
        ReportedError: of the kind that fits.
    """
    values = {each.shown: getattr(options, each.name) for each in options_of(type(options))}
    check_local(**{name: v for name, v in values.items() if isinstance(v, str) and name not in NOT_A_PATH})
    hidden = NOT_FOR_KERAS
    if getattr(options, "NEEDS_TENSORFLOW", False):
        check_backend()
        hidden = NOT_FOR_TENSORFLOW
    prefer_onednn()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    encoding, delimiter = (getattr(options, name, None) for name in ("encoding", "delimiter"))
    with encodings.assume(encoding or encodings.UTF_8), delimiters.assume(delimiter):
        if (check := getattr(options, "EARLY", None)) and "tensorflow" not in sys.modules:
            resolve(check)(options)
        with quiet_start(hidden if own_process else ()):
            job = resolve(options.JOB)
        keep_loaded(own_process)
        return job(options)


def resolve(name: str) -> Any:
    """Returns the function that is called `module:function`."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)
