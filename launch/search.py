"""Finds the texts in an index that are nearest to each query."""

import sys

from launch.command import Command
from xmodels.jobs.search.options import Options

COMMAND = Command(
    Options,
    "Finds the texts in an index that are nearest to each query.",
    "xmodels search --index=index --model_dir=siamese --text='How do I reset my password?' --top_k=5\n"
    "xmodels search --index=index --model_dir=siamese --input_file=queries.txt --output_file=found.jsonl\n"
    "xmodels search --index=index --model_dir=siamese --input_file=queries.txt --rerank_model_dir=ranker",
    "Vectors of texts",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
