"""`python -m launch.tpu_preflight` is `xmodels tpu_preflight`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
