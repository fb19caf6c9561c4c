"""`python -m launch.encode` is `xmodels encode`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
