"""Flags of `--task=analogy`."""

import dataclasses

from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions(base.AnalogyOptions):
    """Which words are asked for, and how."""
