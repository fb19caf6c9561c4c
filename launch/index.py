"""`python -m launch.index` is `xmodels index`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
