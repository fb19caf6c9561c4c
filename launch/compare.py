"""`python -m launch.compare` is `xmodels compare`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
