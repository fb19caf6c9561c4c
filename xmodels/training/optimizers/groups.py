"""Groups of weights that learn apart from each other: each with an optimizer, a schedule, a clipping and a beginning of its own."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

REST = "rest"  # the group of the weights that no other group holds


@dataclasses.dataclass(frozen=True)
class Group:
    """Weights that learn alike. What is None is as in the training as a whole.

    Attributes:
        name: in states, logs and reports.
        match: which weights it holds: a regular expression that is found in their names in a state, such as
            `backbone.blocks.0.mixer.query.kernel` or `objective.classify.head.bias`, or a function of the name.
        optimizer: a name in `OPTIMIZERS`.
        schedule: a name in `SCHEDULES`. Its steps are those of the training, whenever the group begins.
        learning_rate: the peak of the schedule.
        numbers: further fields of `Optimization`, such as `weight_decay`.
        clip_norm: the global norm to which the gradients of this group are clipped, apart from all others; 0 for none.
        rate: multiplies the learning rate.
        begins: when the group begins to learn: a step, or as a float below 1 a share of the training. Until then neither its weights
            nor its moments change, and its gradients count in no norm. None: never.
    """

    name: str
    match: str | Callable[[str], bool] = ""
    optimizer: str | None = None
    schedule: str | None = None
    learning_rate: float | None = None
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)
    clip_norm: float | None = None
    rate: float = 1.0
    begins: int | float | None = 0

    @property
    def is_separate(self) -> bool:
        """Whether it has an optimizer of its own, and does not share that of the training as a whole."""
        return bool(self.numbers) or any(
            value is not None for value in (self.optimizer, self.schedule, self.learning_rate, self.clip_norm)
        )

    def holds(self, name: str) -> bool:
        """Returns whether a weight of this name belongs to the group, unless an earlier group holds it."""
        return self.match(name) if callable(self.match) else re.search(self.match, name) is not None

    def first_step(self, num_steps: int) -> int | None:
        """Returns the first step that trains the group, of a training of `num_steps` steps; None if none does."""
        if isinstance(self.begins, float):
            return math.ceil(round(self.begins * num_steps, 6))
        return self.begins

    def optimization(self, whole: Any) -> Any:
        """Returns the `Optimization` of the group, given that of the training as a whole.

        Another optimizer has the defaults of its own hyperparameters.
        """
        given = {name: getattr(self, name) for name in ("optimizer", "schedule", "learning_rate")}
        return whole.replace(**{name: value for name, value in given.items() if value is not None}, **self.numbers)


def divide(groups: Sequence[Group], names: Iterable[str]) -> dict[str, Group]:
    """Returns {name of a weight: its group}: the first one that holds it, or else the group `REST`.

    Raises:
        ValueError: a group holds no weight, so its `match` is wrong; or two groups have the same name.
    """
    labels = [group.name for group in groups]
    if repeated := sorted({label for label in labels if labels.count(label) > 1 or label == REST}):
        raise ValueError(
            f"Groups of weights must have different names other than {REST!r}. Received: {', '.join(repeated)}."
        )
    names, rest = list(names), Group(REST)
    found = {name: next((group for group in groups if group.holds(name)), rest) for name in names}
    held = {group.name for group in found.values()}
    if empty := [group for group in groups if group.name not in held]:
        raise ValueError(
            f"The group {empty[0].name!r} holds no weight: {empty[0].match!r} is found in no name, or earlier groups hold all of "
            f"them. The names are {', '.join(names[:4])}, … ({len(names)})."
        )
    return found
