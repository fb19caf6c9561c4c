"""Exports a fine-tuned network as a SavedModel that takes raw strings."""

import sys

from launch.command import Command
from xmodels.jobs.quiet import quiet_start
from xmodels.runs.preflight import check_backend

COMMAND = Command(
    "export_model",
    "Exports a fine-tuned network as a SavedModel that takes raw strings.",
    "xmodels export_model --model_dir=classifier --export_dir=serving --serving_ops=core",
)
COMMAND.section("Model")
COMMAND.string(
    "model_dir",
    None,
    "Run folder of finetune, or of pretrain with a system that generates or translates, or a classifier that convert_checkpoint "
    "wrote (of single texts).",
    required=True,
)
COMMAND.section("Export")
COMMAND.string("export_dir", None, "New folder, laid out for TensorFlow Serving.", required=True)
COMMAND.choice("serving_ops", "text", ["text", "core"], "text: needs tensorflow-text where it is loaded. core: core TensorFlow only, so that stock TensorFlow Serving loads it.")  # fmt: skip
COMMAND.boolean("overwrite", False, "Replace an earlier export in export_dir.")
COMMAND.section("Translators")
COMMAND.integer("num_beams", None, "Of the signature that searches. Default: 4.", minimum=2)
COMMAND.number("length_penalty", None, "Of beam search: alpha of ((5 + length) / 6) ** alpha. Default: 0.6.")


def run() -> None:
    check_backend()
    with quiet_start():
        from xmodels.jobs.export import export_model

    export_model(**COMMAND.options())


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
