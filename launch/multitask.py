"""Fine-tunes one network on several tasks together."""

import sys

from launch.command import Command
from xmodels.jobs.multitask.options import Options

COMMAND = Command(
    Options,
    "Fine-tunes one network on several tasks together, with a head for each (MT-DNN). The same command resumes after an interruption.",
    "xmodels multitask --tasks_file=tasks.yaml --set=DATA=data --init_checkpoint=run --model_dir=joint",
    "Training",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
