"""`python -m launch.find_phrases` is `xmodels find_phrases`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
