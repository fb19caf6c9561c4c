"""`python -m launch.evaluate` is `xmodels evaluate`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
