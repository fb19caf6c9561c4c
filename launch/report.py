"""Writes a page with the curves, numbers and predictions of runs."""

import sys

from launch.command import Command

COMMAND = Command(
    "report",
    "Writes report.html: curves, speed, configuration and predictions of a run, be it finished, under way or killed. "
    "Several runs are laid over each other.",
    "xmodels report --model_dir=run\nxmodels report --model_dir=run_a,run_b,run_c --output_file=comparison.html",
)
COMMAND.section("Runs and output")
COMMAND.string("model_dir", None, "Folder of a run, or several with commas.", required=True)
COMMAND.string("output_file", None, "The page. Default, of a single run: report.html in its folder.")


def run() -> None:
    from xmodels.runs.report import report

    print(f"Report: {report(**COMMAND.options())}")


if __name__ == "__main__":
    sys.exit(COMMAND.main(run))
