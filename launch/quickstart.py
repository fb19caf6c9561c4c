"""Goes all the way from raw text to a SavedModel in about eight minutes."""

import sys

from launch.command import Command
from xmodels.jobs.quickstart.options import Options

COMMAND = Command(
    Options,
    "Goes all the way from raw text to a SavedModel in about eight minutes, on real text, and shows each command.",
    "xmodels quickstart --language=en",
    "Begin here",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
