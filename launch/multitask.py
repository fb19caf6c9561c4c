"""`python -m launch.multitask` is `xmodels multitask`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
