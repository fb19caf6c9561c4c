"""`python -m launch.inspect_data` is `xmodels inspect_data`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
