"""`python -m launch.neighbours` is `xmodels neighbours`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
