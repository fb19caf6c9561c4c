"""Writes a page with the curves, numbers and predictions of runs."""

import sys

from launch.command import Command
from xmodels.jobs.report.options import Options

COMMAND = Command(
    Options,
    "Writes report.html: curves, speed, configuration and predictions of a run, whether it is finished, running or killed. "
    "With several runs, their curves are drawn over each other.",
    "xmodels report --model_dir=run\nxmodels report --model_dir=run_a,run_b,run_c --output_file=comparison.html",
    "Training",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
