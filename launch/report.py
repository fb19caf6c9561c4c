"""`python -m launch.report` is `xmodels report`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
