"""Builds an index of vectors."""

import sys

from launch.command import Command
from xmodels.jobs.index.options import Options

COMMAND = Command(
    Options,
    "Builds a search index from the vectors that encode wrote.",
    "xmodels index --vectors_file=vectors.npy --input_file=texts.txt --output_dir=index\n"
    "xmodels index --vectors_file=vectors.parquet --kind=hnsw --output_dir=index",
    "Vectors of texts",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
