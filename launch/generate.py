"""`python -m launch.generate` is `xmodels generate`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
