"""Translates with an encoder-decoder."""

import sys

from launch.command import Command
from xmodels.jobs.quiet import quiet_start

COMMAND = Command(
    "translate",
    "Translates texts with an encoder-decoder that was trained on parallel text, such as a Transformer.",
    "xmodels translate --model_dir=run --text='Ein Hund rennt.'\n"
    "xmodels translate --model_dir=run --input_file=test.de --num_beams=4 --length_penalty=0.6 --output_file=test.en",
)
COMMAND.section("Model")
COMMAND.string("model_dir", None, "Run folder of pretrain, or a model folder, such as of average_checkpoints.", required=True)  # fmt: skip
COMMAND.section("Texts: one of these")
COMMAND.string("text", None, "A text.")
COMMAND.alias("prompt", "text")
COMMAND.string("input_file", None, "Plain text, also .gz .bz2 .xz .zst, with a text a line.")
COMMAND.section("How to translate (default: the likeliest token each time)")
COMMAND.integer("num_beams", 1, "Above 1: the best translation that a beam search finds; 4 in the paper.", minimum=1)
COMMAND.number("length_penalty", 0.6, "Of beam search: alpha of ((5 + length) / 6) ** alpha; larger for longer ones.")
COMMAND.integer("max_new_tokens", None, "Most tokens of a translation. Default: 50 more than of its source.", minimum=1)
COMMAND.section("Output")
COMMAND.string("output_file", None, "Plain text with a translation a line, in the order of the input. Default: print.")
COMMAND.boolean("overwrite", False, "Replace an existing output_file.")
COMMAND.integer("batch_size", 32, "Texts at a time; those of like length go together.", minimum=1)


def run() -> None:
    with quiet_start():
        from xmodels.jobs.translate import translate

    translate(**COMMAND.options())


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
