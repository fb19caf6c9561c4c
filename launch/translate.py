"""Translates with an encoder-decoder."""

import sys

from launch.command import Command
from xmodels.jobs.options.translate import Options

COMMAND = Command(
    Options,
    "Translates texts with an encoder-decoder that was trained on parallel text, such as a Transformer.",
    "xmodels translate --model_dir=run --text='Ein Hund rennt.'\n"
    "xmodels translate --model_dir=run --input_file=test.de --num_beams=4 --length_penalty=0.6 --output_file=test.en",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
