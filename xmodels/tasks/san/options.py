"""Flags of `--task=san`: those of `classify`, but for what is said of one state, since it reads all of them."""

import dataclasses
from typing import ClassVar

from xmodels.tasks.classify import options as classify


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneOptions(classify.LabelOptions):
    """Labels of pairs."""

    NEEDS_PAIRS: ClassVar = True
