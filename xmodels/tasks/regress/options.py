"""Flags of `--task=regress`."""

import dataclasses
from typing import ClassVar

from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(
    base.TeacherOptions, base.DropoutOptions, base.PoolingOptions, base.FreezingOptions, base.FinetuneOptions
):
    """A number for a text or a pair."""

    JOINS: ClassVar = True
    HAS_ONE_OUTPUT: ClassVar = True
