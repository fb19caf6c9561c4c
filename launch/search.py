"""`python -m launch.search` is `xmodels search`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
