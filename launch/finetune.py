"""Fine-tunes a pretrained network on a labelled table."""

import sys

from launch import optimization_flags
from launch.command import Command
from launch.training_flags import add_devices, add_precision, add_resuming
from xmodels.jobs.quiet import quiet_start
from xmodels.runs.preflight import check_backend
from xmodels.tasks.base import find

COMMAND = Command(
    "finetune",
    "Fine-tunes a pretrained network on a labelled table. The same command resumes after an interruption.",
    "xmodels finetune --task=classify --init_checkpoint=run --train_file=train.tsv --eval_file=dev.tsv \\\n"
    "    --test_file=test.tsv --model_dir=classifier",
)
COMMAND.section("Model")
COMMAND.choice("task", "classify", find.names("task"), "What to learn. " + " ".join(f"{name}: {find.summary(name)}" for name in find.names("task")))  # fmt: skip
COMMAND.string("init_checkpoint", None, "A run or model folder, hf:FOLDER, or tf1:PREFIX; for stories also new:NETWORK or new:NETWORK/SIZE, with random weights.", required=True)  # fmt: skip
COMMAND.boolean("random_init", False, "Take only sizes and vocabulary from init_checkpoint: the control experiment.")
COMMAND.string("vocab_file", None, "Vocabulary, where the checkpoint has none.")
COMMAND.boolean("do_lower_case", None, "Lower-case the text. Default: as the checkpoint says.")
COMMAND.section("Data: TSV, CSV or JSON lines, or records of create_finetuning_data")
COMMAND.string("train_file", None, "Labelled rows to learn from.")
COMMAND.string(
    "data_dir", None, "Records to learn from instead; eval_file and test_file may be folders of records too."
)
COMMAND.string("eval_file", None, "Labelled rows that choose the best epoch.")
COMMAND.string("test_file", None, "Labelled rows that are scored once, at the end.")
COMMAND.string("text_column", None, "Column of the text: its name, or its position from 0 in a file without header. Default: text, sentence, …")  # fmt: skip
COMMAND.string("text_pair_column", None, "Column of the second text, for pairs.")
COMMAND.string("label_column", None, "Column of the label. Default: label, class, …")
COMMAND.integer("max_seq_length", 128, "Longer texts are cut.", minimum=1)
COMMAND.string("length_buckets", None, "Batches of texts of like length: auto, or lengths such as 32,64,128. Saves computing on padding.")  # fmt: skip
COMMAND.integer("tokens_per_batch", None, "Batches of about so many tokens, padding included, over all devices, in place of train_batch_size: of short examples more rows than of long ones. Lengths as length_buckets says, by default auto.", minimum=1)  # fmt: skip
COMMAND.section("Stories: files of bAbI, or its folder, by train_file, eval_file and test_file")
COMMAND.string(
    "tasks", None, "Numbers of the tasks that are learnt jointly, such as 1,2,3. Default: all that are there."
)
COMMAND.integer("questions_per_task", None, "Take the first so many of each task; 1000 of 10000 is the small setting.", minimum=1)  # fmt: skip
COMMAND.number("held_out", 0.0, "Share of the training stories that chooses the best epoch, in place of an eval_file; usual is 0.1.", maximum=0.9)  # fmt: skip
COMMAND.string("model_config_file", None, "JSON with numbers of a new network, in place of those of its size.")
COMMAND.number("ponder_weight", 0.01, "What a step more costs a network that decides about its steps.")
COMMAND.section("Training")
COMMAND.number("num_train_epochs", 3.0, "Passes over the training rows.")
COMMAND.integer("train_batch_size", 32, "Rows a step, over all devices.", minimum=1)
COMMAND.number("auxiliary_lm_weight", None, "Weight of going on as a language model beside the task (GPT's lambda); 0 for none. Default: 0.5 for GPT and GPT-2; others cannot.")  # fmt: skip
COMMAND.number(
    "learning_rate",
    None,
    "Peak of the schedule. Default: 5e-5, for GPT 6.25e-5, for stories 1e-3; small networks want more.",
)
COMMAND.number("warmup_proportion", None, "Share of the steps in which the learning rate rises. Default: 0.1, for GPT 0.002, for stories 0.05.", maximum=1.0)  # fmt: skip
optimization_flags.define(COMMAND, unset=False)
COMMAND.number("gradual_unfreezing", 0.0, "Epochs between two layers that begin to learn, from the top down; 1 is ULMFiT's way. 0: all learn from the start.")  # fmt: skip
COMMAND.boolean("dry_run", False, "Show what would be trained, from which numbers and at what cost, with the first batch, and write nothing.")  # fmt: skip
COMMAND.integer("seed", 12345, "Seed of the head, the order of rows, and dropout.")
add_precision(COMMAND)
COMMAND.section("Run folder")
COMMAND.string("model_dir", None, "Folder of the run.", required=True)
add_resuming(COMMAND, save_steps=500)
COMMAND.integer("log_steps", 50, "Steps between two lines of progress.", minimum=1)
COMMAND.integer("log_norms_steps", 0, "Steps between two looks at the norms and histograms of gradients, weights and updates of each layer; 0 for never.")  # fmt: skip
COMMAND.string("profile_steps", None, "First and last step of a profile for TensorBoard, such as 100,110.")
add_devices(COMMAND)


def run() -> None:
    check_backend()
    with quiet_start():
        from xmodels.jobs.finetune import Options, finetune

    finetune(Options(**COMMAND.options()))


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
