"""Averages the last states of a run."""

import sys

from launch.command import Command
from xmodels.jobs.average_checkpoints.options import Options

COMMAND = Command(
    Options,
    "Averages the weights of the last states of a run, as the Transformer paper does, and writes them as a model folder.",
    "xmodels average_checkpoints --model_dir=run --last=5 --output_dir=averaged",
    "Checkpoints and serving",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
