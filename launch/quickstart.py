"""`python -m launch.quickstart` is `xmodels quickstart`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
