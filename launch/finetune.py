"""Fine-tunes a pretrained network on a labelled table."""

import sys

from launch.command import Command
from xmodels.jobs.finetune.options import Options

COMMAND = Command(
    Options,
    "Fine-tunes a pretrained network on a labelled table. The same command resumes after an interruption.",
    "xmodels finetune --task=classify --init_checkpoint=run --train_file=train.tsv --eval_file=dev.tsv \\\n"
    "    --test_file=test.tsv --model_dir=classifier",
    "Training",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
