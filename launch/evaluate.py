"""Scores a fine-tuned network on labelled rows."""

import sys

from launch.command import Command
from xmodels.jobs.preflight import check_backend
from xmodels.jobs.quiet import quiet_start

COMMAND = Command(
    "evaluate",
    "Scores a fine-tuned network on labelled rows: accuracy, F1 of each label, and the confusions.",
    "xmodels evaluate --model_dir=classifier --test_file=test.tsv",
)
COMMAND.section("Model and data")
COMMAND.choice("task", "auto", ["auto", "classify"], "What to score; auto: what the run was trained for.")
COMMAND.string(
    "model_dir",
    None,
    "Run folder of finetune, a classifier that convert_checkpoint wrote, or hf:FOLDER.",
    required=True,
)
COMMAND.string("test_file", None, "Labelled rows: TSV, CSV or JSON lines.", required=True)
COMMAND.string("text_column", None, "Column of the text: its name, or its position from 0 in a file without header. Default: as given to finetune.")  # fmt: skip
COMMAND.string("text_pair_column", None, "Column of the second text, for pairs.")
COMMAND.string("label_column", None, "Column of the label.")
COMMAND.integer("batch_size", 32, "Rows at a time.", minimum=1)
COMMAND.section("Output")
COMMAND.string("output_file", None, "Also write the scores as JSON.")


def run() -> None:
    check_backend()
    with quiet_start():
        from xmodels.jobs.evaluate import evaluate

    given, options = COMMAND.given(), COMMAND.options()
    evaluate(options.pop("task"), given, options)


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
