"""Flags of `--task=choose`."""

import dataclasses

from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(base.DropoutOptions, base.PoolingOptions, base.FreezingOptions, base.FinetuneOptions):
    """One of several choices."""
