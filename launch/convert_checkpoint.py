"""Converts checkpoints between formats."""

import sys

from launch.command import Command
from xmodels.jobs.quiet import quiet_start

COMMAND = Command(
    "convert_checkpoint",
    "Converts checkpoints between Hugging Face folders, Google's TensorFlow 1 files, and ours. Nothing is overwritten.",
    "xmodels convert_checkpoint --from=hf:bert-base-chinese --to=model --verify",
)
COMMAND.section("Checkpoints")
COMMAND.string("from", None, "hf:FOLDER (safetensors), tf1:PREFIX or tf1:FOLDER, or a run or model folder of ours.", required=True)  # fmt: skip
COMMAND.string("to", None, "hf:FOLDER, tf1:FOLDER, or a new model folder of ours.", required=True)
COMMAND.boolean("verify", False, "Run both on one batch and print the largest difference of each output.")
COMMAND.boolean("allow_pickle", False, "Read pytorch_model.bin if there are no safetensors. Only for files you trust.")


def run() -> None:
    with quiet_start():
        from xmodels.jobs.convert import convert_checkpoint

    options = COMMAND.options()
    convert_checkpoint(options["from"], options["to"], options["verify"], options["allow_pickle"])


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
