"""Pretrains a published system on records."""

import sys

from launch import optimization_flags
from launch.command import Command
from launch.training_flags import add_devices, add_precision, add_resuming
from xmodels.jobs.quiet import quiet_start
from xmodels.runs.preflight import check_backend

COMMAND = Command(
    "pretrain",
    "Pretrains a published system on records. The same command resumes after an interruption.",
    "xmodels pretrain --system=bert_wwm --size=small --data_dir=records --model_dir=run \\\n"
    "    --num_train_steps=100000 --train_batch_size=64 --optimizer=bert_adamw \\\n"
    "    --learning_rate=1e-4 --num_warmup_steps=10000",
)
COMMAND.section("Model")
COMMAND.string("system", None, "Published system, such as bert, bert_wwm or gpt2.", required=True)
COMMAND.string(
    "size", "base", "Size of the network, such as tiny, mini, base or large; which there are depends on the system."
)
COMMAND.settings("set", "NAME=VALUE: a number of the system or a field of its network's configuration, such as label_smoothing=0.2 or dropout=0.2; several parted by commas, or the flag again.")  # fmt: skip
COMMAND.string("model_config_file", None, "JSON with other sizes: Google's bert_config.json, or a config.json of ours.")
COMMAND.alias("bert_config_file", "model_config_file")
COMMAND.string("mixer", None, "Attention of all blocks, of bert, gpt and their kin: multi_head (all tokens), local_window or linear; docs/mixers.md. Default: as in the configuration, multi_head.")  # fmt: skip
COMMAND.string("init_checkpoint", None, "Start from these weights: a run or model folder, hf:FOLDER, or tf1:PREFIX. The optimizer starts anew.")  # fmt: skip
COMMAND.section("Data")
COMMAND.string("data_dir", None, "Records of create_pretraining_data.")
COMMAND.string("input_file", None, "Instead of data_dir: TFRecord files of Google's create_pretraining_data.py.")
COMMAND.string("vocab_file", None, "Vocabulary of the records; needed with input_file.")
COMMAND.string("eval_data_dir", None, "Held-out records; without them, evaluation is on training records.")
COMMAND.integer(
    "max_seq_length", None, "Length of the examples; must be that of the records, which is the default.", minimum=1
)
COMMAND.integer(
    "max_predictions_per_seq", None, "Most hidden tokens in an example. Default: as in the records.", minimum=1
)
COMMAND.choice("wwm_replace_unit", "token", ["token", "word"], "Where whole words are hidden: whether each token of a word is masked, kept or replaced for itself, as in Google's code, or all alike.")  # fmt: skip
COMMAND.choice("on_corrupt_shard", "fail", ["fail", "skip"], "skip: read all shards once to find damaged ones, leave these out, and say what is lost.")  # fmt: skip
COMMAND.boolean("pack_rows", False, "Put several short examples into one row, each for itself, so that little is padding. A step then sees more examples.")  # fmt: skip
COMMAND.integer("pack_row_length", None, "Tokens of a packed row. Default: the length of the examples.", minimum=1)
COMMAND.string("length_buckets", None, "Batches of examples of like length: auto, or lengths such as 32,64,128.")
COMMAND.integer("tokens_per_batch", None, "Batches of about so many tokens, padding included, over all devices, in place of train_batch_size: of short examples more rows than of long ones. Lengths as length_buckets says, by default auto.", minimum=1)  # fmt: skip
COMMAND.section("Training (defaults are those of the system's paper; --dry_run shows them)")
COMMAND.integer("num_train_steps", None, "Updates in all. Default: the system's.", minimum=1)
COMMAND.integer("train_batch_size", None, "Examples a step, over all devices. Default: the system's.", minimum=1)
COMMAND.number("learning_rate", None, "Peak of the schedule. Default: the system's.")
COMMAND.integer("num_warmup_steps", None, "Steps in which the learning rate rises. Default: the same share of the steps as in the system's paper.")  # fmt: skip
optimization_flags.define(COMMAND)
COMMAND.boolean("dry_run", False, "Show what would be trained, from which numbers and at what cost, with the first batch, and write nothing.")  # fmt: skip
COMMAND.integer("seed", 12345, "Seed of initial weights, data order, masks and dropout.")
add_precision(COMMAND)
COMMAND.integer("average_checkpoints", 0, "At the end hand over the mean of the last states, so many; 0 for the last weights.")  # fmt: skip
COMMAND.section("Run folder")
COMMAND.string("model_dir", None, "Folder of the run.", required=True)
add_resuming(COMMAND, save_steps=1000)
COMMAND.integer("log_steps", 100, "Steps between two lines of progress.", minimum=1)
COMMAND.integer("eval_every", 1000, "Steps between two evaluations on eval_data_dir.")
COMMAND.integer("eval_steps", 100, "Most batches of an evaluation.", minimum=1)
COMMAND.integer("log_norms_steps", 0, "Steps between two looks at the norms and histograms of gradients, weights and updates of each layer; 0 for never.")  # fmt: skip
COMMAND.string("profile_steps", None, "First and last step of a profile for TensorBoard, such as 100,110.")
add_devices(COMMAND)


def run() -> None:
    check_backend()
    with quiet_start():
        from xmodels.jobs.pretrain import Options, pretrain

    pretrain(Options(**COMMAND.options()))


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
