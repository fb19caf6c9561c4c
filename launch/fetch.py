"""`python -m launch.fetch` is `xmodels fetch`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
