"""Translates with an encoder-decoder."""

import sys

from launch.command import Command
from xmodels.jobs.translate.options import Options

COMMAND = Command(
    Options,
    "Translates or summarises texts with an encoder-decoder, such as a Transformer, Marian, T5 or BART.",
    "xmodels translate --model_dir=run --text='Ein Hund rennt.'\n"
    "xmodels translate --model_dir=run --input_file=test.de --num_beams=4 --length_penalty=0.6 --output_file=test.en",
    "Using a network",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
