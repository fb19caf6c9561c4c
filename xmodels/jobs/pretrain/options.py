r"""Pretrains a published system on records. The same command resumes after an interruption.

    xmodels pretrain --system=bert_wwm --size=small --data_dir=records --model_dir=run \
        --num_train_steps=20000 --eval_data_dir=heldout_records
"""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from xmodels import systems
from xmodels.interfaces.mixers import summaries
from xmodels.jobs.training_options import TrainingOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TrainingOptions):
    """A system, the records it is trained on, and the training hyperparameters. None keeps those of its recipe."""

    SECTION: ClassVar = "Training"
    JOB: ClassVar = "xmodels.jobs.pretrain.run:pretrain"
    EARLY: ClassVar = "xmodels.jobs.early:check_pretraining"

    system: str = option(REQUIRED, "A published system:", section="Model", structural=True, values=systems.summaries())
    size: str = option("base", "Size of the network, such as tiny, mini, base or large. The system determines which sizes there are.")  # fmt: skip
    recipe: str = option("auto", "Hyperparameters for flags that are not given. published: the paper's. small: those with which networks below base learn in minutes (docs/small_networks.md). auto: small for sizes below base if the network begins with random weights and model_config_file is not given, else published.", choices=("auto", "published", "small"), structural=True)  # fmt: skip
    set: str | None = option(None, "NAME=VALUE: a hyperparameter of the system or a field of its network's configuration, such as label_smoothing=0.2 or dropout=0.2. Separate several by commas, or repeat the flag.", repeatable=True, structural=True)  # fmt: skip
    model_config_file: str | None = option(None, "JSON file with other sizes: Google's bert_config.json, or a config.json of xmodels.", alias="bert_config_file")  # fmt: skip
    mixer: str | None = option(None, "Attention of all blocks, for bert, gpt and their variants (docs/mixers.md). Default: as in the configuration, multi_head:", structural=True, values=summaries())  # fmt: skip
    init_checkpoint: str | None = option(None, "Start from these weights: a run or model folder, hf:FOLDER, or tf1:PREFIX. The optimizer starts anew.", structural=True)  # fmt: skip
    init_encoder: str | None = option(None, "Language model as which the encoder of a translator begins: a run or model folder of lstm_lm for lstm_seq2seq, of bert or roberta for bert2bert, bart and mass, of gpt for transformer, of gpt2 for transformer_pre_norm (docs/lstm_seq2seq.md).", structural=True)  # fmt: skip
    init_decoder: str | None = option(None, "Likewise for the decoder.", structural=True)  # fmt: skip
    init_vectors: str | None = option(None, "Word vectors with which the table of tokens of a new network begins, word2vec:FILE, glove:FILE, fasttext:FILE or a run of ours, such as of --system=skip_gram: of tokens that are words of it, and of pieces of its words (docs/word_vectors.md).", structural=True)  # fmt: skip
    freeze_vectors: bool = option(False, "Keep the table of init_vectors as it is.", structural=True)  # fmt: skip
    similar_words: str | None = option(None, "Word vectors by which words are replaced by similar ones, word2vec:FILE, glove:FILE or fasttext:FILE, for --system=macbert (docs/macbert.md).", structural=True)  # fmt: skip
    extend_positions: bool = option(False, "If the network has more positions than init_checkpoint, as with --set=max_sequence_length=768, initialise the additional ones with copies of the existing ones.", structural=True)  # fmt: skip
    data_dir: str | None = option(None, "Folder of records that create_pretraining_data wrote.", section="Data")
    input_file: str | None = option(None, "Instead of data_dir: TFRecord files of Google's create_pretraining_data.py.")
    vocab_file: str | None = option(None, "Vocabulary of the records; required with input_file.")
    eval_data_dir: str | None = option(None, "Folder of held-out records. Without it, evaluation uses training records.")  # fmt: skip
    max_seq_length: int | None = option(None, "Length of the examples in tokens. It must be that of the records, which is the default.", minimum=1, structural=True)  # fmt: skip
    max_predictions_per_seq: int | None = option(None, "Maximum number of masked tokens per example. Default: as in the records, or more where --set=masking_rate or the numbers of small networks mask more; ERNIE: room for all units that are drawn. With this flag small networks mask what the records were made for.", minimum=1, structural=True)  # fmt: skip
    wwm_replace_unit: str = option("token", "With whole word masking. token: each token of a word is masked, kept or replaced independently, as in Google's code. word: all of them alike.", choices=("token", "word"), structural=True)  # fmt: skip
    on_corrupt_shard: str = option("fail", "skip: read all shards once to find damaged ones, leave these out, and report what is lost.", choices=("fail", "skip"))  # fmt: skip
    length_schedule: str | None = option(None, "LENGTH:SHARE,...: train on short rows first. 32:0.7,128:0.3 means 70 % of the steps with rows of 32 tokens, then rows of 128, the length of the records. All steps have equally many tokens; see docs/training.md. none: all rows have the length of the records. Default: that of the recipe.", section="Batches", structural=True)  # fmt: skip
    pack_rows: bool = option(False, "Pack several short examples into one row, each on its own, to reduce padding. A step then sees more examples.", structural=True)  # fmt: skip
    pack_row_length: int | None = option(None, "Tokens per packed row. Default: the length of the examples.", minimum=1, structural=True)  # fmt: skip
    task_schedule: str | None = option(None, "For systems with several tasks, such as ernie2: continual (each task joins the earlier ones), sequential (one after another), joint (all together), or stages, TASK:STEPS,.../TASK:STEPS,.... Stages may be added to a finished run. Default: continual; for ernie joint.", section="Tasks")  # fmt: skip
    task_steps: str | None = option(None, "Steps of each task: a number, or TASK:STEPS,... in the order in which tasks join. Default: num_train_steps, divided evenly.")  # fmt: skip
    task_data: str | None = option(None, "TASK:FOLDER,...: labelled records of create_finetuning_data --task=classify, for tasks that need more than plain text: discourse, relevance.")  # fmt: skip
    eval_task_data: str | None = option(None, "TASK:FOLDER,...: held-out labelled records on which these tasks are evaluated. Default: those of task_data.")  # fmt: skip
    num_train_steps: int | None = option(None, "Total number of training steps. Default: the system's, as for the next flags; --dry_run shows the values.", section="Training", minimum=1)  # fmt: skip
    train_batch_size: int | None = option(None, "Batch size: examples per step, over all devices. Default: the system's.", minimum=1)  # fmt: skip
    learning_rate: float | None = option(None, "Peak learning rate of the schedule. Default: the system's.")
    num_warmup_steps: int | None = option(None, "Warm-up steps, in which the learning rate rises. Default: the same share of all steps as in the system's paper.")  # fmt: skip
    step_engine: str = option("auto", "What computes the steps of skip_gram, cbow and fasttext on a processor. numba: one compiled function, several times as fast, with the same results to rounding. tensorflow: operations. auto: numba where it is installed (pip install 'xmodels[numba]') and fits the other flags.", choices=("auto", "numba", "tensorflow"))  # fmt: skip
    eval_every: int = option(1000, "Steps between two evaluations on eval_data_dir.", section="Evaluation")
    eval_steps: int = option(100, "Maximum number of batches per evaluation.", minimum=1)
    nonmonotonic_average: int = option(0, "Average the weights, as NT-ASGD does, from the moment on at which the loss of an evaluation on eval_data_dir is above the least of all but this many before it; the average is evaluated and written to backbone/. 5 is usual; 0: never.", section="Precision and memory (docs/training.md)", minimum=0, maximum=1000, structural=True)  # fmt: skip
    average_checkpoints: int = option(0, "Write the mean of this many last states to backbone/ at the end; 0: the last weights.")  # fmt: skip
