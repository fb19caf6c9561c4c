"""Exports a run as its task does: `xmodels/tasks/NAME/serve.py`."""

import os

from data_pipelines.errors import UsageError
from xmodels.export import exporter, text_generator, text_translator
from xmodels.export.generator import continues_texts
from xmodels.export.translator import is_translator
from xmodels.jobs.options.export_model import Options
from xmodels.tasks.base.run import TASK_FILE


def export_model(options: Options) -> str:
    """Exports a run; returns the folder."""
    model_dir, export_dir, serving_ops, overwrite = (
        options.model_dir,
        options.export_dir,
        options.serving_ops,
        options.overwrite,
    )
    num_beams, length_penalty = options.num_beams, options.length_penalty
    if is_translator(model_dir):
        beam = {"num_beams": num_beams or 4, "length_penalty": 0.6 if length_penalty is None else length_penalty}
        done = text_translator.export(model_dir, export_dir, serving_ops, overwrite, **beam)
    elif num_beams is not None or length_penalty is not None:
        raise UsageError(f"--num_beams, --length_penalty: {model_dir} does not translate.")
    elif not os.path.isfile(os.path.join(model_dir, TASK_FILE)) and continues_texts(model_dir):
        done = text_generator.export(model_dir, export_dir, serving_ops, overwrite)
    else:
        done = exporter.export(model_dir, export_dir, serving_ops, overwrite)
    print(f"{export_dir}: SavedModel {done.answers} ({serving_ops} ops); README.md there says how to serve it.")
    if done.largest_difference is not None:
        print(f"  largest difference from the run's own answers: {done.largest_difference:.2g}")
    return export_dir
