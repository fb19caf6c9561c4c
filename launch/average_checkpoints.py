"""`python -m launch.average_checkpoints` is `xmodels average_checkpoints`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
