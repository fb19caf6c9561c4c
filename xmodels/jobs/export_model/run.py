"""Exports a run as its task does: `xmodels/tasks/NAME/serve.py`."""

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import values_of
from xmodels.export import comparison, exporter, formats
from xmodels.jobs.evaluate.options import Options as EvaluateOptions
from xmodels.jobs.export_model.options import Options
from xmodels.runs import exports
from xmodels.runs.fine_tuned import task_of
from xmodels.runs.report import REPORT, write_report
from xmodels.tasks.base.find import load_part
from xmodels.tasks.base.origin import RUN_CONFIG


def export_model(options: Options) -> str:
    """Exports a run; returns the folder."""
    formats.check(options.format, options.precision)
    given = {name: value for name, value in values_of(options, options.TASK_OPTIONS).items() if value is not None}
    task = task_of(options.model_dir)
    server = load_part(task, "serve").Server
    if unknown := set(given) - set(server.flags):
        raise UsageError(
            f"{', '.join(f'--{name}' for name in sorted(unknown))}: not for {options.model_dir}, whose task is {task}."
        )
    for left in exporter.left_behind(options.export_dir):
        print(
            f"Warning: {left} was left by an export that was killed, or belongs to one that runs now. Remove it if none does."
        )
    form = exporter.Form(options.format, options.precision)
    evaluate = evaluator(server.scored_as or task, options.eval_file) if options.eval_file else None
    done = exporter.export(
        options.model_dir, options.export_dir, options.serving_ops, options.overwrite, form, options.eval_file, evaluate, **given
    )  # fmt: skip
    kind = "SavedModel" if form.is_usual else form.name
    print(
        f"{options.export_dir}: {kind} {done.answers} ({options.serving_ops} ops); README.md there says how to serve it."
    )
    if done.length and not load_part(task, "read").Reader.reads_windows:
        print(f"  inputs longer than {done.length} tokens are cut, as the run cuts them.")
    if done.largest_difference is not None:
        print(f"  largest difference from the run's own answers: {done.largest_difference:.2g}")
    if done.compared:
        print(f"{options.eval_file}: {done.compared.num_rows:,} rows, {done.compared.threads} processor(s)")
        print(comparison.as_text(done.compared))
        keep(options.model_dir, done.compared.as_dict())
    return options.export_dir


def evaluator(task: str, eval_file: str) -> Callable[[Any], Mapping]:
    """Returns what scores a predictor on a file, as `xmodels evaluate` does without further flags."""
    function, defaults = load_part(task, "score").evaluate, EvaluateOptions(model_dir="", test_file=eval_file)
    names = [name for name in inspect.signature(function).parameters if name != "predictor"]
    return lambda predictor: function(predictor=predictor, **{name: getattr(defaults, name) for name in names})


def keep(run: str, found: Mapping[str, Any]) -> None:
    """Puts a comparison into the report of a run; folders that are no runs, or cannot be written, stay as they are."""
    if os.path.isfile(os.path.join(run, RUN_CONFIG)) and os.access(run, os.W_OK):
        exports.add(run, found)
        if os.path.isfile(os.path.join(run, REPORT)):
            write_report(run)
