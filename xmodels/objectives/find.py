"""The listing of objectives. Imports nothing heavy."""

import os


def is_objective(label: str) -> bool:
    """Whether there is an objective of this label: each has a file of its own, which is the only registry."""
    return label.isidentifier() and os.path.isfile(os.path.join(os.path.dirname(__file__), f"{label}.py"))
