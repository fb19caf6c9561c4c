"""`python -m launch.serve` is `xmodels serve`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
