"""Turns labelled data into records for fine-tuning."""

import sys

from data_pipelines.options.create_finetuning_data import Options
from launch.command import Command

COMMAND = Command(
    Options,
    "Turns labelled data into sharded records for fine-tuning. Checks every example, can use several processes, and resumes after an interruption.",
    "xmodels create_finetuning_data --task=answer_span --input_file=train-v2.0.json --vocab_file=vocab.txt \\\n"
    "    --max_seq_length=384 --output_dir=records --num_workers=8",
    "Text and labelled data",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
