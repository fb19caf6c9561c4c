"""Flags of `--task=similarity`: those of `classify`."""

import dataclasses
from typing import ClassVar

from xmodels.tasks.classify import options as classify


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(classify.StateOptions):
    """Labels of pairs without an order."""

    IS_DEFAULT: ClassVar = False
    NEEDS_PAIRS: ClassVar = True
