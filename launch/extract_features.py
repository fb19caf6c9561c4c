"""Writes the states of a network that does not learn."""

import sys

from launch.command import Command
from xmodels.jobs.options.extract_features import Options

COMMAND = Command(
    Options,
    "Writes the states of a network that does not learn, of each token or pooled to one vector for each text (docs/features.md).",
    "xmodels extract_features --model_dir=run --input_file=texts.txt --output_file=tokens.jsonl\n"
    "xmodels extract_features --model_dir=run --layers=-1 --pooling=mean --input_file=texts.txt --output_file=vectors.npy",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
