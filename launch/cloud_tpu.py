"""`python -m launch.cloud_tpu` is `xmodels cloud_tpu`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
