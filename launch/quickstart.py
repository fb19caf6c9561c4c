"""Runs the whole street on real text in a few minutes."""

import sys

from launch.command import Command

COMMAND = Command(
    "quickstart",
    "Runs the whole street on real text in a few minutes, from raw text to a SavedModel, and shows each command.",
    "xmodels quickstart --language=en",
)
COMMAND.section("What to run")
COMMAND.choice("language", "en", ["en", "zh"], "en: docstrings of this Python installation. zh: the samples of the repository.")  # fmt: skip
COMMAND.string("output_dir", None, "New folder for everything. Default: quickstart-LANGUAGE.")
COMMAND.string("samples_dir", None, "Folder `samples` of the repository, if it is not beside the package.")


def run() -> None:
    from xmodels.jobs.quickstart import quickstart

    language = COMMAND["language"]
    quickstart(language, COMMAND["output_dir"] or f"quickstart-{language}", COMMAND["samples_dir"])


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
