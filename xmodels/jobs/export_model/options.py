"""Exports a fine-tuned network as a SavedModel that takes raw strings.

xmodels export_model --model_dir=classifier --export_dir=serving --serving_ops=core
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from xmodels.tasks.base import find

TaskOptions = find.all_options(find.EXPORT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """A run, and where it is exported."""

    model_dir: str = option(REQUIRED, "Run folder of finetune, or of pretrain with a system that generates or translates; or a classifier of single texts that convert_checkpoint wrote.", section="Model")  # fmt: skip
    export_dir: str = option(REQUIRED, "New folder, laid out for TensorFlow Serving.", section="Export")
    serving_ops: str = option("text", "text: needs tensorflow-text where the model is loaded. core: only core TensorFlow ops, so that stock TensorFlow Serving can load it.", choices=("text", "core"))  # fmt: skip
    overwrite: bool = option(False, "Replace an earlier export in export_dir.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SourceOptions, TaskOptions):
    """A run and the SavedModel to export it to."""

    SECTION: ClassVar = "Checkpoints and serving"
    JOB: ClassVar = "xmodels.jobs.export_model.run:export_model"
    EARLY: ClassVar = "xmodels.jobs.early:check_usage"
    NEEDS_TENSORFLOW: ClassVar = True
    TASK_OPTIONS: ClassVar = TaskOptions
