"""Writes the hidden states of a network."""

import sys

from launch.command import Command
from xmodels.jobs.extract_features.options import Options

COMMAND = Command(
    Options,
    "Writes the hidden states of any network: a vector for each token, or pooled to one for each text (docs/features.md).",
    "xmodels extract_features --model_dir=run --input_file=texts.txt --output_file=tokens.jsonl\n"
    "xmodels extract_features --model_dir=run --layers=-1 --pooling=mean --input_file=texts.txt --output_file=vectors.npy",
    "Vectors of texts",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
