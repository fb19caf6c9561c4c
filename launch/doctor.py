"""`python -m launch.doctor` is `xmodels doctor`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
