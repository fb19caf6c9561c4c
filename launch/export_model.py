"""Exports a fine-tuned network as a SavedModel that takes raw strings."""

import sys

from launch.command import Command
from xmodels.jobs.export_model.options import Options

COMMAND = Command(
    Options,
    "Exports a fine-tuned network as a SavedModel that takes raw strings.",
    "xmodels export_model --model_dir=classifier --export_dir=serving --serving_ops=core",
    "Checkpoints and serving",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
