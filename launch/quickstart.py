"""Goes the whole way on real text in about ten minutes."""

import sys

from launch.command import Command
from xmodels.jobs.options.quickstart import Options

COMMAND = Command(
    Options,
    "Goes the whole way on real text in about ten minutes, from raw text to a SavedModel, and shows each command.",
    "xmodels quickstart --language=en",
    "Begin here",
)

if __name__ == "__main__":
    sys.exit(COMMAND.main())
