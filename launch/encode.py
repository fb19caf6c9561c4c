"""Writes the vectors of texts."""

import sys

from launch.command import Command
from xmodels.jobs.options.encode import Options

COMMAND = Command(
    Options,
    "Writes the vectors of texts, by a Siamese network.",
    "xmodels encode --model_dir=siamese --input_file=texts.txt --output_file=vectors.npy\n"
    "xmodels encode --model_dir=siamese --input_file=titles.tsv --text_column=title --output_file=vectors.parquet",
    "Vectors of texts",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
