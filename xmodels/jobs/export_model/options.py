"""Exports a fine-tuned network, to be served: as a SavedModel that takes raw strings, or with its network as ONNX or LiteRT.

xmodels export_model --model_dir=classifier --export_dir=serving --serving_ops=core
xmodels export_model --model_dir=classifier --export_dir=small --format=onnx --precision=int8 --eval_file=dev.tsv
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from xmodels.export.formats import ALL_PRECISIONS
from xmodels.tasks.base import find

TaskOptions = find.all_options(find.EXPORT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """A run, and where it is exported."""

    model_dir: str = option(REQUIRED, "Run folder of finetune, or of pretrain with a system that generates or translates; or a classifier of single texts that convert_checkpoint wrote.", section="Model")  # fmt: skip
    export_dir: str = option(REQUIRED, "New folder, laid out for TensorFlow Serving.", section="Export")
    format: str = option("saved_model", "saved_model: one graph from strings to answers. onnx, litert: the network in a file of its own, from ids to numbers, with what reads strings beside it; need the extra of the same name.", choices=("saved_model", "onnx", "litert"))  # fmt: skip
    precision: str = option("float32", "Of the weights. saved_model also has bfloat16, in which it computes; onnx and litert have float16 and int8 (weights of 8 bits, activations quantized as they come).", choices=ALL_PRECISIONS)  # fmt: skip
    eval_file: str | None = option(None, "Labelled rows on which the export is compared with the network and with a SavedModel in float32: answers, score, size, milliseconds. The table is printed, and stands in the export and in the run's report.")  # fmt: skip
    serving_ops: str = option("text", "text: needs tensorflow-text where the model is loaded. core: only core TensorFlow ops, so that stock TensorFlow Serving can load it.", choices=("text", "core"))  # fmt: skip
    overwrite: bool = option(False, "Replace an earlier export in export_dir.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SourceOptions, TaskOptions):
    """A run and what to export it to."""

    SECTION: ClassVar = "Checkpoints and serving"
    JOB: ClassVar = "xmodels.jobs.export_model.run:export_model"
    EARLY: ClassVar = "xmodels.jobs.early:check_export"
    NEEDS_TENSORFLOW: ClassVar = True
    TASK_OPTIONS: ClassVar = TaskOptions
