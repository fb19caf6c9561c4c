"""Scores a run as its task does: `xmodels/tasks/NAME/score.py`."""

import importlib
import inspect
import os

from data_pipelines.errors import UsageError
from data_pipelines.files import write_json
from data_pipelines.options.declaration import given
from xmodels.export.translator import is_translator
from xmodels.jobs.language_modelling.network import is_causal
from xmodels.jobs.options.evaluate import Options
from xmodels.jobs.predict import check_output, load_predictor
from xmodels.tasks.base import find
from xmodels.tasks.base.run import TASK_FILE, task_of


def evaluate(options: Options) -> dict:
    """Scores a run; returns the scores.

    The task gets the options that its `evaluate` names; another one that is given is an error.
    """
    task = run_task(options.model_dir) if options.task == "auto" else options.task
    function = function_of(task)
    parameters = [name for name in inspect.signature(function).parameters if name != "output_file"]
    known = [{"predictor": "model_dir"}.get(name, name) for name in parameters] + ["output_file"]
    for name in given(options):
        if name not in known and name != "task":
            raise UsageError(f"--{name}: --task={task} has no such flag; it takes --{', --'.join(known)}.")
    check_output(options.output_file)
    values = {name: getattr(options, name) for name in parameters if name != "predictor"}
    if "predictor" in parameters:
        values["predictor"] = load_predictor(options.model_dir)
    scores = function(**values)
    if options.output_file:
        write_json(options.output_file, scores)
    return scores


def function_of(task: str):
    """The function that scores a task."""
    if task in find.names():
        return find.part(task, "score").evaluate
    return importlib.import_module(f"xmodels.jobs.evaluations.{task}").evaluate


def run_task(model_dir: str) -> str:
    """What a run was trained for."""
    if not os.path.isfile(os.path.join(model_dir, TASK_FILE)):
        if is_translator(model_dir):
            return "translate"
        if is_causal(model_dir):
            return "language_model"
    return task_of(model_dir)
