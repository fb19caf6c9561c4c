"""Averages the last states of a run."""

import sys

from launch.command import Command
from xmodels.jobs.options.average_checkpoints import Options

COMMAND = Command(
    Options,
    "Writes the mean of the weights of the last states of a run as a model folder, as the Transformer paper does.",
    "xmodels average_checkpoints --model_dir=run --last=5 --output_dir=averaged",
    "Checkpoints and serving",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
