"""Encodes texts as vectors."""

import sys

from launch.command import Command
from xmodels.jobs.encode.options import Options

COMMAND = Command(
    Options,
    "Encodes texts as vectors with a Siamese network, and writes them.",
    "xmodels encode --model_dir=siamese --input_file=texts.txt --output_file=vectors.npy\n"
    "xmodels encode --model_dir=siamese --input_file=titles.tsv --text_column=title --output_file=vectors.parquet",
    "Vectors of texts",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
