"""Flags of `--task=word_similarity`."""

import dataclasses

from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions(base.WordOptions):
    """Which words are compared."""
