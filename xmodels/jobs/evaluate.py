"""Finds what scores a run. A file in `evaluations` is a task: adding it (and its name in `launch/evaluate.py`) adds the task."""

import importlib
import inspect
import os

from data_pipelines.errors import UsageError
from xmodels.export.task_file import TASK_FILE
from xmodels.export.translator import is_translator
from xmodels.jobs.language_modelling.network import is_causal
from xmodels.models.folder import read_json


def evaluate(task: str, given: dict, options: dict):
    """Scores a run; returns the scores.

    Args:
        task: the name of a file in `evaluations`; `auto` for what the run was trained for.
        given: the flags on the command line. One that the task does not know is an error.
        options: all flags. The task gets those that its `evaluate` names.
    """
    task = task_of(options["model_dir"]) if task == "auto" else task
    function = importlib.import_module(f"xmodels.jobs.evaluations.{task}").evaluate
    known = inspect.signature(function).parameters
    for name in given:
        if name not in known and name != "task":
            raise UsageError(f"--{name}: --task={task} has no such flag; it takes --{', --'.join(known)}.")
    return function(**{name: options[name] for name in known})


def task_of(model_dir: str) -> str:
    """What a run was trained for."""
    path = os.path.join(model_dir, TASK_FILE)
    if os.path.isfile(path):
        return read_json(path).get("task", "classify")
    if is_translator(model_dir):
        return "translate"
    return "language_model" if is_causal(model_dir) else "classify"
