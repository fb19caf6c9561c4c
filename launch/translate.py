"""`python -m launch.translate` is `xmodels translate`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
