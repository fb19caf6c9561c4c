"""Continues texts with a causal network; translates with an encoder-decoder."""

import sys

from launch.command import Command
from xmodels.jobs.generate.options import Options

COMMAND = Command(
    Options,
    "Continues texts with a causal network, such as GPT-2. With an encoder-decoder, such as a Transformer, it translates (see also "
    "`xmodels translate`).",
    "xmodels generate --model_dir=run --prompt='Once upon a time' --num_samples=3\n"
    "xmodels generate --model_dir=run --input_file=prompts.txt --num_beams=4 --output_file=texts.jsonl",
    "Using a network",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
