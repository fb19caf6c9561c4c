"""Flags of `--task=answer_story`."""

import dataclasses

from data_pipelines.options.declaration import option
from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(base.FinetuneOptions):
    """Questions about stories."""

    tasks: str | None = option(None, "Numbers of the tasks to train jointly, such as 1,2,3. Default: all tasks in the files.", section="Stories: files of bAbI, or its folder, by train_file, eval_file and test_file", structural=True)  # fmt: skip
    questions_per_task: int | None = option(None, "Train only on this many questions of each task, from the first on. 1000 of 10000 is the small setting.", minimum=1, structural=True)  # fmt: skip
    held_out: float = option(0.0, "Share of the training stories that is held out to choose the best epoch, instead of an eval_file; usually 0.1.", maximum=0.9, structural=True)  # fmt: skip
    ponder_weight: float = option(
        0.01, "Weight in the loss of the number of steps, for networks that decide on it themselves.", structural=True
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Which stories are scored."""

    tasks: str | None = option(None, "Numbers of the tasks to score, such as 1,2,3. Default: all tasks in the files.", section="Stories (docs/universal_transformer.md)")  # fmt: skip
