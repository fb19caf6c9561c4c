"""Optimizer, schedule and rates by depth of a fine-tuning. `options` are the `Options` of `jobs.finetune`."""

import math

from keras.optimizers import Optimizer

from xmodels.training.finetuning import FineTuning
from xmodels.training.optimizers.grouped import GroupedOptimizer
from xmodels.training.optimizers.kinds import OPTIMIZERS
from xmodels.training.optimizers.optimization import NUMBERS, Optimization
from xmodels.training.step.learner import Learner
from xmodels.training.watching.progress import print_status


def defaults_of(reader) -> dict:
    """Returns the defaults of a reader, {flag: value}, without numbers of a paper's optimizer that the one of --optimizer lacks."""
    found, optimizer = reader.defaults(), reader.options.optimizer
    known = OPTIMIZERS[optimizer].numbers if optimizer in OPTIMIZERS else NUMBERS  # an unknown one is refused later
    return {name: value for name, value in found.items() if name in known or name not in NUMBERS}


def optimization_of(options, num_steps: int, per_epoch: float) -> Optimization:
    """Returns the flags that concern the optimizer and its schedule."""
    return Optimization(
        num_steps=num_steps, learning_rate=options.learning_rate, optimizer=options.optimizer,
        num_warmup_steps=int(options.warmup_proportion * num_steps), schedule=options.lr_schedule,
        min_lr_ratio=options.min_lr_ratio, lr_power=options.lr_power, layerwise_lr_decay=options.layerwise_lr_decay,
        thaw_steps=math.ceil(options.gradual_unfreezing * per_epoch),
        **{name: getattr(options, name) for name in NUMBERS},
    )  # fmt: skip


def optimizer_of(finetuning: FineTuning, optimization: Optimization, backbone) -> Optimizer | GroupedOptimizer:
    """Returns the optimizer of a recipe: of its groups, of layers by depth if flags ask for them, or one for all weights."""
    groups = finetuning.groups or optimization.layerwise.groups(backbone)
    return GroupedOptimizer(groups, optimization) if groups else optimization.make_optimizer()


def describe_groups(learner: Learner) -> str:
    """Describes how each group of weights learns, where a recipe has groups of its own; "" where flags say all."""
    optimizer = learner.optimizer
    if not isinstance(optimizer, GroupedOptimizer):
        return ""
    of_flags = {group.name for group in optimizer.optimization.layerwise.groups(learner.backbone)}
    return optimizer.describe() if optimizer.is_separate or {g.name for g in optimizer.groups} != of_flags else ""


def print_rates(optimization: Optimization, learner: Learner) -> None:
    """Tells by which optimizers and at which rates the layers learn, and from when."""
    backbone = learner.backbone
    if groups := describe_groups(learner):
        print_status(f"Groups of weights: {groups}.")
        if late := learner.optimizer.beginning_after(optimization.num_steps - 1):
            print_status(
                f"Warning: {', '.join(late)} would begin to learn after the last step, {optimization.num_steps}. Give more "
                "--num_train_epochs, or less --gradual_unfreezing."
            )
        return
    print_status(optimization.describe())
    if description := optimization.layerwise.describe(backbone):
        print_status(description)
    last = max((rate.begins for _, rate in optimization.layerwise.rates(backbone)), default=0)
    if last >= optimization.num_steps:
        print_status(
            f"Warning: the lowest layers would begin to learn at step {last}, after the last step. For all to learn, give "
            "more --num_train_epochs, or less --gradual_unfreezing."
        )
