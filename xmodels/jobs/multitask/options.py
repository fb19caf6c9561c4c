"""Fine-tunes one network on several tasks together, with a head for each (MT-DNN). The same command resumes after an
interruption.

    xmodels multitask --tasks_file=tasks.yaml --set=DATA=data --init_checkpoint=run --model_dir=joint
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import delimiter_option, encoding_option
from xmodels.jobs.training_options import DeviceOptions, OptimizationOptions, PrecisionOptions, RunOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(OptimizationOptions, PrecisionOptions, RunOptions, DeviceOptions):
    """Several tasks that one network learns together, with a head for each. The defaults are those of MT-DNN."""

    NEEDS_TENSORFLOW = True
    SECTION: ClassVar = "Training"
    JOB: ClassVar = "xmodels.jobs.multitask.run:multitask"
    EARLY: ClassVar = "xmodels.jobs.early:check_multitask"

    tasks_file: str = option(REQUIRED, "YAML file that lists the tasks, with the files, columns and batches of each. docs/mt_dnn.md explains its keys, docs/t5.md those of text-to-text tasks with a rate each.", section="Model and tasks")  # fmt: skip
    set: str | None = option(None, "NAME=VALUE: the value of ${NAME} in the file, such as DATA=glue. Separate several by commas, or repeat the flag. Names that are not given are taken from the environment.", repeatable=True)  # fmt: skip
    init_checkpoint: str = option(REQUIRED, "Network to fine-tune: a run or model folder, hf:FOLDER, or tf1:PREFIX; or new:NETWORK or new:NETWORK/SIZE with random weights and a vocab_file.", structural=True)  # fmt: skip
    random_init: bool = option(False, "Control experiment: start from random weights, and take only sizes and vocabulary from init_checkpoint.", structural=True)  # fmt: skip
    vocab_file: str | None = option(None, "Vocabulary, if the checkpoint has none.")
    do_lower_case: bool | None = option(None, "Lower-case the text. Default: as the checkpoint says.")
    encoding: str = encoding_option()
    delimiter: str | None = delimiter_option()
    num_train_epochs: float = option(5.0, "Number of passes over the batches of all tasks.", section="Training")
    early_stopping_patience: int | None = option(None, "Stop after this many epochs in a row without a better mean of the scores on the eval_files. Default: never.", minimum=1)  # fmt: skip
    warmup_proportion: float = option(0.1, "Warm-up, in which the learning rate rises, as a share of the steps.", maximum=1.0)  # fmt: skip
    gradual_unfreezing: float = option(0.0, "Epochs between unfreezing one layer and the next, from the top down. 0: all layers learn from the start.", structural=True)  # fmt: skip
    learning_rate: float = option(5e-5, "Peak learning rate of the schedule. Small networks need more; a warning says how much.")  # fmt: skip

    optimizer: str = "mt_dnn_adamax"
    lr_schedule: str = "bert_linear"
    min_lr_ratio: float = 0.0
    lr_power: float = 1.0
    layerwise_lr_decay: float = 1.0
    save_checkpoints_steps: int = 500
