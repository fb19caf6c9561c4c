"""Looks at a planned training before it begins."""

import sys

from launch.command import Command
from xmodels.jobs.doctor.options import Options

COMMAND = Command(
    Options,
    "Checks machine, versions, data, checkpoint and folders before a training begins, and says what to change. Takes the flags of pretrain, finetune and multitask: put `doctor` in place of the verb. It trains and writes nothing.",
    "xmodels doctor\n"
    "xmodels doctor --system=bert_wwm --size=small --data_dir=records --model_dir=run --train_batch_size=64\n"
    "xmodels doctor --init_checkpoint=run --train_file=train.tsv --eval_file=dev.tsv --model_dir=classifier",
    "Begin here",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
