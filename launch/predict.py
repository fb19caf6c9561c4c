"""`python -m launch.predict` is `xmodels predict`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
