"""Turns raw text into records for pretraining."""

import sys

from data_pipelines.options.create_pretraining_data import Options
from launch.command import Command

COMMAND = Command(
    Options,
    "Turns raw text into sharded records for pretraining. Reads the text as a stream, can use several processes, and resumes after an interruption.",
    "xmodels create_pretraining_data --input_file='corpus/*.txt' --vocab_file=vocab.txt --output_dir=records \\\n"
    "    --language=zh --do_whole_word_mask --segmenter=jieba --num_workers=8",
    "Text and labelled data",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
