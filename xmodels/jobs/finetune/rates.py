"""Optimizer, schedule and rates by depth of a fine-tuning. `options` are the `Options` of `jobs.finetune`."""

import math

from xmodels.training.optimizers.optimization import NUMBERS, Optimization
from xmodels.training.watching.progress import print_status


def optimization_of(options, num_steps: int, per_epoch: float) -> Optimization:
    """The flags that concern the optimizer and its schedule."""
    return Optimization(
        num_steps=num_steps, learning_rate=options.learning_rate, optimizer=options.optimizer,
        num_warmup_steps=int(options.warmup_proportion * num_steps), schedule=options.lr_schedule,
        min_lr_ratio=options.min_lr_ratio, lr_power=options.lr_power, layerwise_lr_decay=options.layerwise_lr_decay,
        thaw_steps=math.ceil(options.gradual_unfreezing * per_epoch),
        **{name: getattr(options, name) for name in NUMBERS},
    )  # fmt: skip


def print_rates(optimization: Optimization, backbone) -> None:
    """Tells by which optimizer and at which rates the layers learn, and from when."""
    print_status(optimization.describe())
    if description := optimization.layerwise.describe(backbone):
        print_status(description)
    last = max((rate.begins for _, rate in optimization.layerwise.rates(backbone)), default=0)
    if last >= optimization.num_steps:
        print_status(
            f"Warning: the lowest layers would begin to learn at step {last}, after the last step. For all to learn, give "
            "more --num_train_epochs, or less --gradual_unfreezing."
        )
