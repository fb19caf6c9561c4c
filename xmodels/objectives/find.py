"""Looks up objectives by name. Imports nothing heavy."""

import os


def is_objective(label: str) -> bool:
    """Returns whether there is an objective with this label. Each has a file of its own, and the files are the only registry."""
    return label.isidentifier() and os.path.isfile(os.path.join(os.path.dirname(__file__), f"{label}.py"))
