"""`python -m launch.create_finetuning_data` is `xmodels create_finetuning_data`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
