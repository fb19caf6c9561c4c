"""Shows what records hold."""

import sys

from data_pipelines.options.inspect_data import Options
from launch.command import Command

COMMAND = Command(
    Options,
    "Shows records: decoded examples with their masked tokens, statistics of the masking, and whether files are complete. "
    "With --vocab_file, it reports how a vocabulary fits a corpus; with --contamination, how much of a test set occurs in one.",
    "xmodels inspect_data --data_dir=records --objective=spans --verify\n"
    "xmodels inspect_data --vocab_file=vocab.txt --input_file='corpus/*.txt'\n"
    "xmodels inspect_data --contamination='test*.tsv' --input_file='corpus/*.txt'",
    "Text and labelled data",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
