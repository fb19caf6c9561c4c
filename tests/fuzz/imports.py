"""Imports what the verbs import while they work, so that a forked case has it."""

import importlib
import pkgutil
import sys

from data_pipelines.quiet import quiet_start
from launch.__main__ import verbs

PACKAGES = ("data_pipelines", "xmodels", "launch")


def import_everything() -> None:
    """All modules of ours, but for those whose packages are not installed, and what they need late."""
    with quiet_start():
        for package in PACKAGES:
            for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
                if not module.name.endswith("__main__"):
                    try:
                        importlib.import_module(module.name)
                    except ImportError:
                        sys.modules.pop(module.name, None)
    for verb in verbs():
        importlib.import_module(f"launch.{verb}")
