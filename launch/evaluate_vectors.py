"""`python -m launch.evaluate_vectors` is `xmodels evaluate_vectors`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
