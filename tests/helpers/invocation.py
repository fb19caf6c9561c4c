"""Runs the commands in this process, as a shell would."""

import importlib


def invoke(verb, *arguments, **flags):
    """Returns the exit code of `xmodels VERB ARGUMENTS --FLAG=VALUE ...`."""
    module = importlib.import_module(f"launch.{verb}")
    try:
        return module.COMMAND.main([*arguments, *(f"--{name}={value}" for name, value in flags.items())])
    except SystemExit as stop:
        return stop.code
