"""Optimizer, schedule and their hyperparameters: the values of a paper, which flags override."""

import dataclasses
from typing import Any, Self

from keras.optimizers import Optimizer

from data_pipelines.errors import UsageError
from xmodels.training.optimizers.kinds import OPTIMIZERS
from xmodels.training.optimizers.layerwise import Layerwise
from xmodels.training.optimizers.optimizers import make_optimizer
from xmodels.training.schedules.kinds import SCHEDULES
from xmodels.training.schedules.schedules import make_schedule

NUMBERS = (
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "momentum",
)  # each optimizer has some of them
KERAS_NAMES = {"adam_beta1": "beta_1", "adam_beta2": "beta_2", "adam_epsilon": "epsilon"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimization:
    """Optimizer and schedule by name, and their hyperparameters.

    Attributes:
        num_steps: steps of the training.
        learning_rate: the peak of the schedule.
        num_warmup_steps: steps of warmup.
        optimizer: a name in `OPTIMIZERS`.
        schedule: a name in `SCHEDULES`.
        weight_decay, adam_beta1, adam_beta2, adam_epsilon, momentum: None for the default of the optimizer.
        min_lr_ratio: linear, polynomial and cosine schedules end at this share of the peak.
        lr_power: exponent of the polynomial schedule.
        layerwise_lr_decay, thaw_steps: see `Layerwise`.
    """

    num_steps: int
    learning_rate: float
    num_warmup_steps: int
    optimizer: str = "bert_adamw"
    schedule: str = "bert_linear"
    weight_decay: float | None = None
    adam_beta1: float | None = None
    adam_beta2: float | None = None
    adam_epsilon: float | None = None
    momentum: float | None = None
    min_lr_ratio: float = 0.0
    lr_power: float = 1.0
    layerwise_lr_decay: float = 1.0
    thaw_steps: int = 0

    @property
    def numbers(self) -> dict[str, float]:
        """The hyperparameters of the optimizer, including its defaults.

        Raises:
            UsageError: there is no such optimizer, or it has no hyperparameter of that name.
        """
        if self.optimizer not in OPTIMIZERS:
            raise UsageError(f"--optimizer={self.optimizer}: unknown. Known: {', '.join(OPTIMIZERS)}.")
        defaults = OPTIMIZERS[self.optimizer].numbers
        given = {name: value for name in NUMBERS if (value := getattr(self, name)) is not None}
        if unknown := sorted(set(given) - set(defaults)):
            raise UsageError(
                f"--{unknown[0]}={given[unknown[0]]:g}: {self.optimizer} has no such number. It has "
                f"{', '.join('--' + name for name in defaults)}."
            )
        return {**defaults, **given}

    @property
    def layerwise(self) -> Layerwise:
        return Layerwise(self.layerwise_lr_decay, self.thaw_steps)

    def replace(self, **values: Any) -> Self:
        """Returns a copy with other numbers. Another optimizer has the defaults of its own hyperparameters."""
        if values.get("optimizer", self.optimizer) != self.optimizer:
            values = dict.fromkeys(NUMBERS) | values
        return dataclasses.replace(self, **values)

    def settings(self) -> dict[str, Any]:
        """Returns all settings by the names of their flags, for config.json."""
        return {
            "num_train_steps": self.num_steps, "learning_rate": self.learning_rate,
            "num_warmup_steps": self.num_warmup_steps, "optimizer": self.optimizer, "lr_schedule": self.schedule,
            **self.numbers, "min_lr_ratio": self.min_lr_ratio, "lr_power": self.lr_power,
            "layerwise_lr_decay": self.layerwise_lr_decay,
        }  # fmt: skip

    def describe(self) -> str:
        """Describes optimizer, learning rate and schedule in a line."""
        warmup = f"after {self.num_warmup_steps} steps of warm-up" if self.num_warmup_steps else "without warm-up"
        return f"Optimizer {self.optimizer}, learning rate {self.learning_rate:g} {warmup}, schedule {self.schedule}."

    def make_schedule(self):
        """Returns the schedule. Raises a UsageError if there is none of that name."""
        if self.schedule not in SCHEDULES:
            raise UsageError(f"--lr_schedule={self.schedule}: unknown. Known: {', '.join(SCHEDULES)}.")
        peak, floor, power = self.learning_rate, self.min_lr_ratio, self.lr_power
        return make_schedule(self.schedule, peak, self.num_warmup_steps, self.num_steps, floor, power)

    def make_optimizer(self) -> Optimizer:
        """Returns the optimizer, for a `Learner`. Call it inside the scope of the strategy."""
        numbers = {KERAS_NAMES.get(name, name): value for name, value in self.numbers.items()}
        optimizer = make_optimizer(self.optimizer, learning_rate=self.make_schedule(), **numbers)
        optimizer.layerwise = self.layerwise
        return optimizer
