"""`python -m launch.train_vocabulary` is `xmodels train_vocabulary`."""

from launch.command import entry_point

COMMAND = entry_point(__spec__.name, __name__)
