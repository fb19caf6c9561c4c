"""`python -m launch.export_model` is `xmodels export_model`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
