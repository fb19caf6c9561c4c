"""Asks a fine-tuned network about text."""

import sys

from launch.command import Command
from xmodels.jobs.quiet import quiet_start
from xmodels.runs.preflight import check_backend

COMMAND = Command(
    "predict",
    "Asks a fine-tuned network about text: labels, entities, choices, answers.",
    "xmodels predict --model_dir=classifier --text='It rained all week.'\n"
    "xmodels predict --model_dir=classifier --input_file=new.tsv --output_file=labelled.tsv\n"
    "xmodels predict --model_dir=stories --text='Ann went home. Ann took the lamp.' --text_pair='Where is the lamp?'",
)
COMMAND.section("Model")
COMMAND.string(
    "model_dir",
    None,
    "Run folder of finetune, a classifier that convert_checkpoint wrote, or hf:FOLDER.",
    required=True,
)
COMMAND.section("Text: one of these")
COMMAND.string("text", None, "One text.")
COMMAND.string("text_pair", None, "Its second text, for pairs; of a story, the question.")
COMMAND.string("input_file", None, "Plain .txt with one text a line, or TSV, CSV, JSON lines. Stories: a sentence a line, questions end with a question mark, a blank line ends a story.")  # fmt: skip
COMMAND.string("text_column", None, "Column of the text: its name, or its position from 0 in a file without header. Default: as given to finetune.")  # fmt: skip
COMMAND.string("text_pair_column", None, "Column of the second text, for pairs.")
COMMAND.section("Output")
COMMAND.string(
    "output_file",
    None,
    "A line for each text: JSON where the name ends in .jsonl, else a table with a header. Default: print.",
)
COMMAND.boolean("overwrite", False, "Replace an existing output_file.")
COMMAND.integer("batch_size", 32, "Texts at a time.", minimum=1)


def run() -> None:
    check_backend()
    with quiet_start():
        from xmodels.jobs.predict import predict

    predict(**COMMAND.options())


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
