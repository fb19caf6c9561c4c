"""Several tasks of one pretraining, each with batches of its own, and when they join (Sun et al., 2020, section 3.1)."""

import dataclasses
from collections.abc import Callable, Mapping

from data_pipelines.ops.compose import Op
from xmodels.objectives.base import Objective


@dataclasses.dataclass(frozen=True)
class PretrainingTask:
    """One of the tasks.

    Attributes:
        objective: makes the objective; called inside the scope of the strategy.
        frame: the op that turns clean records into framed batches.
        labelled: whether it learns from the records of --task_data of its name, and not from the text.
        packings: values of `create_pretraining_data --packing` whose records it reads; None for those of the recipe.
    """

    objective: Callable[[], Objective]
    frame: Op
    labelled: bool = False
    packings: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """The tasks that a system can learn from given records, and how a run learns them that says nothing of it.

    Attributes:
        tasks: {name: what is learnt}.
        usual: the names of those that such a run learns, in the order in which they join.
        schedule: the value of --task_schedule of such a run.
        missing: tasks of the system that these records do not give -> what they want.
        by_examples: whether tasks that are learnt together have steps in proportion to their examples; otherwise all as many.
    """

    tasks: Mapping[str, PretrainingTask]
    usual: tuple[str, ...]
    schedule: str = "continual"
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)
    by_examples: bool = True
