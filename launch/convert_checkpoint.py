"""`python -m launch.convert_checkpoint` is `xmodels convert_checkpoint`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
