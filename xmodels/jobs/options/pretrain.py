"""The options of `xmodels pretrain`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from xmodels import systems
from xmodels.jobs.options.training import TrainingOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TrainingOptions):
    """A system, the records that it learns from, and the numbers of the training; None keeps those of its recipe."""

    JOB: ClassVar = "xmodels.jobs.pretrain:pretrain"
    EARLY: ClassVar = "xmodels.jobs.early:pretraining"

    system: str = option(REQUIRED, "A published system:", section="Model", structural=True, values=systems.summaries())
    size: str = option("base", "Size of the network, such as tiny, mini, base or large; which there are depends on the system.")  # fmt: skip
    recipe: str = option("auto", "Whose numbers hold where flags give none: published, the paper's; small, those with which networks below base learn in minutes (docs/small_networks.md); auto: small for sizes below base, where neither init_checkpoint nor model_config_file is given.", choices=("auto", "published", "small"), structural=True)  # fmt: skip
    set: str | None = option(None, "NAME=VALUE: a number of the system or a field of its network's configuration, such as label_smoothing=0.2 or dropout=0.2; several parted by commas, or the flag again.", repeatable=True, structural=True)  # fmt: skip
    model_config_file: str | None = option(None, "JSON with other sizes: Google's bert_config.json, or a config.json of ours.", alias="bert_config_file")  # fmt: skip
    mixer: str | None = option(None, "Attention of all blocks, of bert, gpt and their kin: multi_head (all tokens), local_window or linear; docs/mixers.md. Default: as in the configuration, multi_head.", structural=True)  # fmt: skip
    init_checkpoint: str | None = option(None, "Start from these weights: a run or model folder, hf:FOLDER, or tf1:PREFIX. The optimizer starts anew.", structural=True)  # fmt: skip
    extend_positions: bool = option(False, "Where the network is to have more positions than init_checkpoint, as of set=max_sequence_length=768, begin with those there are and copies of them.", structural=True)  # fmt: skip
    data_dir: str | None = option(None, "Records of create_pretraining_data.", section="Data")
    input_file: str | None = option(None, "Instead of data_dir: TFRecord files of Google's create_pretraining_data.py.")
    vocab_file: str | None = option(None, "Vocabulary of the records; needed with input_file.")
    eval_data_dir: str | None = option(None, "Held-out records; without them, evaluation is on training records.")
    max_seq_length: int | None = option(None, "Length of the examples; must be that of the records, which is the default.", minimum=1, structural=True)  # fmt: skip
    max_predictions_per_seq: int | None = option(None, "Most hidden tokens in an example. Default: as in the records.", minimum=1, structural=True)  # fmt: skip
    wwm_replace_unit: str = option("token", "Where whole words are hidden: whether each token of a word is masked, kept or replaced for itself, as in Google's code, or all alike.", choices=("token", "word"), structural=True)  # fmt: skip
    on_corrupt_shard: str = option("fail", "skip: read all shards once to find damaged ones, leave these out, and say what is lost.", choices=("fail", "skip"))  # fmt: skip
    length_schedule: str | None = option(None, "LENGTH:SHARE,...: short rows first, such as 32:0.7,128:0.3 for 70 % of the steps with rows of 32 tokens, then rows of 128, the length of the records. Steps of equal tokens; docs/training.md. Default: that of the recipe; none: all steps with rows of the records.", section="Batches", structural=True)  # fmt: skip
    pack_rows: bool = option(False, "Put several short examples into one row, each for itself, so that little is padding. A step then sees more examples.", structural=True)  # fmt: skip
    pack_row_length: int | None = option(None, "Tokens of a packed row. Default: the length of the examples.", minimum=1, structural=True)  # fmt: skip
    task_schedule: str | None = option(None, "Of systems with several tasks, such as ernie2: continual (each task joins the old ones), sequential (one after another), joint (all together), or stages, TASK:STEPS,.../TASK:STEPS,.... Stages may be added to a run that is finished. Default: continual; of ernie joint.", section="Tasks")  # fmt: skip
    task_steps: str | None = option(None, "Steps of each task: a number, or TASK:STEPS,... in the order in which tasks join. Default: num_train_steps, divided evenly.")  # fmt: skip
    task_data: str | None = option(None, "TASK:FOLDER,...: labelled records of create_finetuning_data --task=classify, for tasks that plain text does not give: discourse, relevance.")  # fmt: skip
    eval_task_data: str | None = option(None, "TASK:FOLDER,...: labelled records that are held out, to score these tasks on. Default: those of task_data.")  # fmt: skip
    num_train_steps: int | None = option(None, "Updates in all. Default: the system's, as of what follows; --dry_run shows the numbers.", section="Training", minimum=1)  # fmt: skip
    train_batch_size: int | None = option(None, "Examples a step, over all devices. Default: the system's.", minimum=1)
    learning_rate: float | None = option(None, "Peak of the schedule. Default: the system's.")
    num_warmup_steps: int | None = option(None, "Steps in which the learning rate rises. Default: the same share of the steps as in the system's paper.")  # fmt: skip
    eval_every: int = option(1000, "Steps between two evaluations on eval_data_dir.", section="Evaluation")
    eval_steps: int = option(100, "Most batches of an evaluation.", minimum=1)
    average_checkpoints: int = option(0, "At the end hand over the mean of the last states, so many; 0 for the last weights.", section="Precision and memory (docs/training.md)")  # fmt: skip
