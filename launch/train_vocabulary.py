"""Trains a vocabulary on text."""

import sys

from data_pipelines.options.train_vocabulary import Options
from launch.command import Command

COMMAND = Command(
    Options,
    "Trains a vocabulary on your text, and reports how well it fits. The same text gives the same vocabulary.",
    "xmodels train_vocabulary --input_file='corpus/*.txt' --language=en --vocab_size=30000 --output_file=vocab.txt",
    "Text and labelled data",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
