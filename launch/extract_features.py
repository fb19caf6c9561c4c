"""`python -m launch.extract_features` is `xmodels extract_features`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
