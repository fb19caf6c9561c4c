"""Averages the last states of a run."""

import sys

from launch.command import Command
from xmodels.jobs.quiet import quiet_start

COMMAND = Command(
    "average_checkpoints",
    "Writes the mean of the weights of the last states of a run as a model folder, as the Transformer paper does.",
    "xmodels average_checkpoints --model_dir=run --last=5 --output_dir=averaged",
)
COMMAND.section("Run and output")
COMMAND.string("model_dir", None, "Folder of the run; it may be unfinished.", required=True)
COMMAND.integer("last", 5, "How many states. Train with --keep_checkpoint_max to keep as many.", minimum=1)
COMMAND.string("output_dir", None, "Folder for the averaged network and its heads.", required=True)


def run() -> None:
    with quiet_start():
        from xmodels.jobs.average import average_checkpoints

    average_checkpoints(**COMMAND.options())


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
