"""The options of `xmodels multitask`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import encoding_option
from xmodels.jobs.options.training import DeviceOptions, OptimizationOptions, PrecisionOptions, RunOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(OptimizationOptions, PrecisionOptions, RunOptions, DeviceOptions):
    """Several tasks that one network learns together, a head each; the numbers are those of MT-DNN."""

    NEEDS_TENSORFLOW = True
    JOB: ClassVar = "xmodels.jobs.multitask:multitask"
    EARLY: ClassVar = "xmodels.jobs.early:multitask"

    tasks_file: str = option(REQUIRED, "YAML that names the tasks, with files, columns and batches of each; docs/mt_dnn.md explains its keys, docs/t5.md those of text-to-text tasks with a rate each.", section="Model and tasks")  # fmt: skip
    set: str | None = option(None, "NAME=VALUE: what ${NAME} stands for in the file, such as DATA=glue; several parted by commas, or the flag again. What is not given is taken from the environment.", repeatable=True)  # fmt: skip
    init_checkpoint: str = option(REQUIRED, "A run or model folder, hf:FOLDER, or tf1:PREFIX.", structural=True)
    random_init: bool = option(False, "Take only sizes and vocabulary from init_checkpoint: the control experiment.", structural=True)  # fmt: skip
    vocab_file: str | None = option(None, "Vocabulary, where the checkpoint has none.")
    do_lower_case: bool | None = option(None, "Lower-case the text. Default: as the checkpoint says.")
    encoding: str = encoding_option()
    num_train_epochs: float = option(5.0, "Passes over the batches of all tasks.", section="Training")
    early_stopping_patience: int | None = option(None, "End the training after so many epochs in a row without a better mean of the scores on the eval_files. Default: never.", minimum=1)  # fmt: skip
    warmup_proportion: float = option(0.1, "Share of the steps in which the learning rate rises.", maximum=1.0)
    gradual_unfreezing: float = option(0.0, "Epochs between two layers that begin to learn, from the top down. 0: all learn from the start.", structural=True)  # fmt: skip
    learning_rate: float = option(5e-5, "Peak of the schedule; small networks want more; a warning names how much.")

    optimizer: str = "mt_dnn_adamax"
    lr_schedule: str = "bert_linear"
    min_lr_ratio: float = 0.0
    lr_power: float = 1.0
    layerwise_lr_decay: float = 1.0
    save_checkpoints_steps: int = 500
    log_steps: int = 50
