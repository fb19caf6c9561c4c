"""What a run must remember of its loss: by what scores are multiplied before they become probabilities."""

import dataclasses
from typing import Annotated

from data_pipelines.schema import Constraint


@dataclasses.dataclass(frozen=True)
class Settings:
    """What stands in the task.json of a run, where it differs from these values.

    Attributes:
        scale: of scores before a softmax over the candidates of a list; gamma of Liu et al., 2019.
    """

    scale: Annotated[float, Constraint(lambda value: value > 0, "a number above 0")] = 1.0
