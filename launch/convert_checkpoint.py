"""Converts checkpoints between formats."""

import sys

from launch.command import Command
from xmodels.jobs.convert_checkpoint.options import Options

COMMAND = Command(
    Options,
    "Converts checkpoints between Hugging Face folders, Google's TensorFlow 1 files, folders of xmodels, and more formats. Nothing is overwritten.",
    "xmodels convert_checkpoint --from=hf:bert-base-chinese --to=model --verify",
    "Checkpoints and serving",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
