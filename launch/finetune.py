"""`python -m launch.finetune` is `xmodels finetune`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
