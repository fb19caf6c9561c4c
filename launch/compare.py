"""Compares models on a corpus of your own, with an equal budget for each."""

import sys

from launch.command import Command
from xmodels.jobs.compare.options import Options

COMMAND = Command(
    Options,
    "Compares models on a corpus of your own: pretrains each with an equal budget, fine-tunes all on the same tasks, and writes one page.",
    "xmodels compare --plan=plan.yaml --set=corpus=text --output_dir=comparison --dry_run",
    "Training",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
