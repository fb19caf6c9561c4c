"""`python -m launch.pretrain` is `xmodels pretrain`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
