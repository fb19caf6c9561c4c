"""Scores a run as its task does: `xmodels/tasks/NAME/score.py`."""

import dataclasses
import inspect
import math
import os
from typing import Any

from data_pipelines.errors import UsageError
from data_pipelines.files import write_json
from data_pipelines.options.declaration import changed_options
from data_pipelines.paths import check_output
from data_pipelines.records.manifest import MANIFEST
from xmodels.jobs.device_options import ALL, AnswerDeviceOptions, answer_scope
from xmodels.jobs.evaluate.options import Options
from xmodels.jobs.evaluate.records import evaluate_records
from xmodels.jobs.evaluate.shares import check_task, evaluate_share
from xmodels.jobs.predict.run import load_predictor
from xmodels.jobs.share_options import ShareOptions
from xmodels.jobs.shares import share_of
from xmodels.runs.fine_tuned import Source, task_of
from xmodels.tasks.base import find
from xmodels.tasks.base.origin import class_weights_of
from xmodels.tasks.base.score import check_plots

OPENED = ("predictor", "source")  # arguments that the model_dir becomes


def evaluate(options: Options) -> dict:
    """Returns the scores of a run, {} where other tasks have not predicted their parts yet.

    The task gets the options that its `evaluate` names; another one that is given is an error.
    """
    task = task_of(options.model_dir) if options.task == "auto" else options.task
    predictor = None
    if task is None:
        with answer_scope(options):
            predictor = load_predictor(options.model_dir)  # only its head tells what somebody else's network has learnt
        task = predictor.task.label
    function = find.load_part(task, "score").evaluate
    parameters = [name for name in inspect.signature(function).parameters if name != "output_file"]
    check_flags(options, task, parameters)
    share = share_of(options, "test_file")
    if share is not None:
        check_task(task)
        if os.path.exists(share.output):
            raise UsageError(f"--output_file={share.output}: exists. Remove it before the tasks start.")
    check_output(options.output_file)
    check_plots(options.plots)
    if options.test_file and os.path.isfile(os.path.join(options.test_file, MANIFEST)):
        if share is not None:
            raise UsageError(f"--num_tasks: --test_file={options.test_file} holds records, which one process scores.")
        if options.distribution_strategy == ALL:
            raise UsageError(
                f"--distribution_strategy={ALL}: --test_file={options.test_file} holds records, which one device scores."
            )
        if find.task_class(task) is None:
            raise UsageError(
                f"--test_file={options.test_file}: holds records. --task={task} reads the file that they were made of."
            )
        predictor = predictor or predictor_of(options, task)
        scores = evaluate_records(predictor, options, changed_options(options))
    else:
        values = {name: getattr(options, name) for name in parameters if name not in OPENED}
        if "source" in parameters:
            values["source"] = Source(options.model_dir)
        if "predictor" in parameters:
            values["predictor"] = predictor or predictor_of(options, task)
        scores = (
            function(**values)
            if share is None
            else evaluate_share(share, values["predictor"], lambda: without_nan(function(**values)))
        )
    if "loss" in scores and (weights := class_weights_of(options.model_dir)):
        print(
            f"  The loss counts all rows alike; that of the fine-tuning counts them as --class_weights={weights} says, so they differ."
        )
    if options.output_file and share is None:
        write_json(options.output_file, without_nan(scores))
    return scores


def check_flags(options: Options, task: str, parameters: list[str]) -> None:
    """Raises a UsageError for a flag that the task does not take, whose `evaluate` has these parameters."""
    known = [{"predictor": "model_dir", "source": "model_dir"}.get(name, name) for name in parameters]
    known += ["encoding", "delimiter", "output_file"]
    if "predictor" in parameters:
        known += [each.name for kind in (ShareOptions, AnswerDeviceOptions) for each in dataclasses.fields(kind)]
    for name in changed_options(options):
        if name not in known and name != "task":
            raise UsageError(f"--{name}: --task={task} has no such flag; it takes --{', --'.join(known)}.")


def without_nan(scores: Any) -> Any:
    """Returns the scores with None in the place of those that are not defined, such as a correlation with equal numbers: JSON
    has no NaN."""
    if isinstance(scores, dict):
        return {name: without_nan(value) for name, value in scores.items()}
    if isinstance(scores, list | tuple):
        return [without_nan(value) for value in scores]
    return None if isinstance(scores, float) and not math.isfinite(scores) else scores


def predictor_of(options: Options, task: str):
    """Returns what answers for the run of the options.

    Raises:
        UsageError: the run was fine-tuned for another task.
    """
    with answer_scope(options):
        predictor, wanted = load_predictor(options.model_dir), find.task_class(task)
    if wanted and not isinstance(predictor.task, wanted):
        raise UsageError(
            f"--task={task}: --model_dir={options.model_dir} was fine-tuned for --task={predictor.task.label}. Leave the flag out."
        )
    return predictor
