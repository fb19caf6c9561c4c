"""Exports a run as its task does: `xmodels/tasks/NAME/serve.py`."""

from data_pipelines.errors import UsageError
from data_pipelines.options.declaration import values_of
from xmodels.export import exporter
from xmodels.jobs.export_model.options import Options
from xmodels.runs.fine_tuned import task_of
from xmodels.tasks.base.find import load_part


def export_model(options: Options) -> str:
    """Exports a run; returns the folder."""
    given = {name: value for name, value in values_of(options, options.TASK_OPTIONS).items() if value is not None}
    task = task_of(options.model_dir)
    if unknown := set(given) - set(load_part(task, "serve").Server.flags):
        raise UsageError(
            f"{', '.join(f'--{name}' for name in sorted(unknown))}: not for {options.model_dir}, whose task is {task}."
        )
    for left in exporter.left_behind(options.export_dir):
        print(
            f"Warning: {left} was left by an export that was killed, or belongs to one that runs now. Remove it if none does."
        )
    done = exporter.export(options.model_dir, options.export_dir, options.serving_ops, options.overwrite, **given)
    print(
        f"{options.export_dir}: SavedModel {done.answers} ({options.serving_ops} ops); README.md there says how to serve it."
    )
    if done.length and not load_part(task, "read").Reader.reads_windows:
        print(f"  inputs longer than {done.length} tokens are cut, as the run cuts them.")
    if done.largest_difference is not None:
        print(f"  largest difference from the run's own answers: {done.largest_difference:.2g}")
    return options.export_dir
