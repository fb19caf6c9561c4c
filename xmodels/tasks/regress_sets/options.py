"""Flags of `--task=regress_sets`."""

import dataclasses

from xmodels.tasks.base import options as base
from xmodels.tasks.classify_sets.options import SetOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(SetOptions, base.DropoutOptions, base.FinetuneOptions):
    """A number for a set of vectors."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions(SetOptions):
    """Where the vectors stand."""
