r"""Fine-tunes a pretrained network on a labelled table. The same command resumes after an interruption.

    xmodels finetune --task=classify --init_checkpoint=run --train_file=train.tsv --eval_file=dev.tsv \
        --test_file=test.tsv --model_dir=classifier
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, Option, option
from data_pipelines.options.input import delimiter_option, encoding_option
from xmodels.jobs.training_options import TrainingOptions
from xmodels.tasks.base import find

TASKS = find.names("task")
TaskOptions = find.all_options(find.FINETUNE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """A task, the network to fine-tune, and the labelled rows."""

    task: str = option(find.able("IS_DEFAULT")[0], "Task to train:", section="Model", choices=TASKS, values={name: find.summary(name) for name in TASKS}, structural=True)  # fmt: skip
    init_checkpoint: str = option(REQUIRED, "Network to fine-tune: a run or model folder, hf:FOLDER, or tf1:PREFIX; or new:NETWORK or new:NETWORK/SIZE with random weights, such as new:text_cnn with --vocab_file (docs/rnn_cnn.md).", structural=True)  # fmt: skip
    random_init: bool = option(False, "Control experiment: start from random weights, and take only sizes and vocabulary from init_checkpoint.", structural=True)  # fmt: skip
    init_layers: str | None = option(None, "Layers of init_checkpoint with which the network begins, counted from 1, such as 1,3,5 of six; the others are left out. DistilBERT begins so.", structural=True)  # fmt: skip
    init_vectors: str | None = option(None, "Word vectors with which the table of tokens of a new network begins, word2vec:FILE, glove:FILE, fasttext:FILE or a run of ours, such as of --system=skip_gram: of tokens that are words of it, and of pieces of its words (docs/word_vectors.md).", structural=True)  # fmt: skip
    freeze_vectors: bool = option(False, "Keep the table of init_vectors as it is.", structural=True)  # fmt: skip
    vocab_file: str | None = option(None, "Vocabulary, if the checkpoint has none or the network is new.")
    do_lower_case: bool | None = option(None, "Lower-case the text. Default: as the checkpoint says.")
    train_file: str | None = option(None, "Labelled rows to train on.", section="Data: TSV, CSV or JSON lines, or records of create_finetuning_data", structural=True)  # fmt: skip
    data_dir: str | None = option(None, "Folder of records to train on instead. eval_file and test_file may be folders of records too.", structural=True)  # fmt: skip
    eval_file: str | None = option(None, "Labelled rows for evaluation during training; their score decides which epoch is kept.")  # fmt: skip
    test_file: str | None = option(None, "Labelled rows for the test score, which is computed once, at the end.")
    encoding: str = encoding_option()
    delimiter: str | None = delimiter_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without a header. Default: text, sentence, …")  # fmt: skip
    text_pair_column: str | None = option(None, "Column of the second text, for pairs.")
    label_column: str | None = option(None, "Column of the label. Default: label, class, …")
    on_bad_row: str = option("fail", "What to do with rows of a table that cannot be used (an empty label or text, unclosed quotes, missing columns). fail: stop and name the line. skip: leave them out and say which.", choices=("fail", "skip"))  # fmt: skip
    max_seq_length: int = option(128, "Maximum length in tokens. Longer texts are truncated; those of answer_span and tag are read in windows.", minimum=1, structural=True)  # fmt: skip
    extend_positions: bool = option(False, "If max_seq_length exceeds the positions of the network, add the missing ones: copies of the first ones, which are then trained.", structural=True)  # fmt: skip
    model_config_file: str | None = option(None, "JSON file with the sizes of a new network, instead of those of its named size.")  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningOptions(TrainingOptions):
    """How the network learns."""

    train_fraction: float | None = option(None, "Share of the training examples to use, such as 0.01. They are drawn at random by seed, regardless of their labels.", maximum=1.0, section="Few labels", structural=True)  # fmt: skip
    num_train_examples: int | None = option(None, "Number of training examples to use, drawn in the same way.", minimum=1, structural=True)  # fmt: skip
    init_head: bool = option(False, "Also start from the head of init_checkpoint, which must be a run of the same task with the same labels.", section="Training", structural=True)  # fmt: skip
    num_train_epochs: float = option(3.0, "Number of passes over the training rows.")
    eval_every: int | None = option(None, "Steps between two evaluations on eval_file, for few rows, whose epochs are short. Default: one epoch.", minimum=1)  # fmt: skip
    early_stopping_patience: int | None = option(None, "Stop after this many evaluations in a row (by default one per epoch) without a better score on eval_file. Default: never.", minimum=1)  # fmt: skip
    train_batch_size: int = option(32, "Batch size: rows per step, over all devices.", minimum=1)
    auxiliary_lm_weight: float | None = option(None, "Weight of the language modelling loss beside the task's (GPT's lambda); 0 for none. Default: the system's; 0.5 for GPT and GPT-2, usually 0. Networks that do not model language from left to right cannot use it.", structural=True)  # fmt: skip
    language_model_epochs: float | None = option(None, "Epochs in which the language model learns the texts of the training rows before the task begins, as in ULMFiT; the phase is a run of its own in model_dir/language_model. For networks that model language from left to right. Default: 1 for AWD-LSTM, else 0.", structural=True)  # fmt: skip
    lora_rank: int | None = option(None, "LoRA: train low-rank adapters of this rank beside kernels of the network, which stay as they are, and the head. The network handed over has them added to its kernels; states hold them alone. 8 is usual.", minimum=1, maximum=1024, section="Adapters", structural=True)  # fmt: skip
    lora_alpha: float | None = option(None, "Adapters are multiplied by lora_alpha / lora_rank. Default: lora_rank.", structural=True)  # fmt: skip
    lora_layers: str = option("query,value", "Layers that have adapters, such as query, key, value, merge, expand, contract; separated by commas.", structural=True)  # fmt: skip
    learning_rate: float | None = option(None, "Peak learning rate of the schedule. Default: that of the paper, such as 5e-5 for BERT. For networks narrower than 768: 3e-4 up to a width of 128, with Muon 2e-3, and less in proportion for wider ones. For stories: 1e-3.")  # fmt: skip
    warmup_proportion: float | None = option(None, "Warm-up, in which the learning rate rises, as a share of the steps. Default: 0.1, for GPT 0.002, for stories 0.05.", maximum=1.0)  # fmt: skip
    set: str | None = option(None, "NAME=VALUE: a number of the recipe by which the system of the network is fine-tuned, such as dropout=0.3 of SiATL (docs/siatl.md). Separate several by commas, or repeat the flag.", repeatable=True, structural=True)  # fmt: skip
    step_engine: str = option("auto", "What computes the steps of --task=classify of fastText's classifier on a processor. numba: one compiled function, several times as fast, with the same results to rounding. tensorflow: operations. auto: numba where it is installed (pip install 'xmodels[numba]') and fits the other flags.", choices=("auto", "numba", "tensorflow"))  # fmt: skip
    gradual_unfreezing: float | None = option(None, "Epochs between unfreezing one layer and the next, from the top down; 1 is ULMFiT's way. 0: all layers learn from the start. Default: the system's, usually 0.", structural=True)  # fmt: skip

    min_lr_ratio: float = 0.0
    lr_power: float = 1.0
    layerwise_lr_decay: float = 1.0
    ema_decay: float | None = None  # that of the system, usually 0
    save_checkpoints_steps: int = 500


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SourceOptions, TaskOptions, LearningOptions):
    """A task, the network to fine-tune, and the labelled rows. What None stands for depends on the network."""

    SECTION: ClassVar = "Training"
    JOB: ClassVar = "xmodels.jobs.finetune.run:finetune"
    EARLY: ClassVar = "xmodels.jobs.early:check_finetuning"
    TASK_OPTIONS: ClassVar = TaskOptions

    @staticmethod
    def own_flags(task: str) -> dict[str, Option]:
        """Returns the flags in TASK_OPTIONS that a task takes."""
        return find.own_flags(task, find.FINETUNE)
