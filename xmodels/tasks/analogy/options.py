"""Flags of `--task=analogy`."""

import dataclasses

from data_pipelines.options.declaration import option
from xmodels.tasks.base import options as base


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateOptions(base.WordOptions):
    """Which words are asked for, and how."""

    method: str = option("add", "How analogies are answered. add: 3CosAdd (Mikolov et al., 2013). multiply: 3CosMul (Levy and Goldberg, 2014).", choices=("add", "multiply"))  # fmt: skip
