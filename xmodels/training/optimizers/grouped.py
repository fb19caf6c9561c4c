"""Several optimizers as one, each of which trains a group of weights."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from keras.optimizers import Optimizer

from xmodels.training.optimizers.groups import REST, Group, divide
from xmodels.training.optimizers.synced import Rate, clip_to_norm


@dataclasses.dataclass
class Part:
    """An optimizer and the weights that it trains.

    Attributes:
        optimization: the `Optimization` that made it.
        optimizer: of `make_optimizer`.
        clip_norm: of the gradients of these weights; None for that of the training as a whole.
        keys: the identities of the weights.
    """

    optimization: Any
    optimizer: Optimizer
    clip_norm: float | None = None
    keys: set[int] = dataclasses.field(default_factory=set)

    def places(self, variables) -> list[int]:
        """Returns the indices of its weights among variables."""
        return [place for place, variable in enumerate(variables) if id(variable) in self.keys]


class GroupedOptimizer:
    """Trains each group of weights by an optimizer of its own; to a `Learner` it is one optimizer.

    Groups without numbers of their own share the optimizer of the training as a whole, the part `REST`. The steps of all parts are
    counted together, also of those that a step of another stream does not train.

    Args:
        groups: see `divide`.
        optimization: the `Optimization` of the training as a whole.

    Attributes:
        parts: {name of a group: `Part`} of the groups with weights that learn; known after `prepare`.
    """

    def __init__(self, groups: Sequence[Group], optimization):
        self.groups, self.optimization = tuple(groups), optimization
        self.parts: dict[str, Part] = {}
        self._shown: dict[str, tuple[str, Rate]] = {}  # of each group: its part and its rate
        self._group_of: dict[int, str] = {}  # by the identity of a weight

    def prepare(self, named: Mapping[str, Any], not_decayed: tuple[str, ...]) -> None:
        """Makes the optimizers. Weights of groups that never begin become non-trainable.

        Args:
            named: the weights by their names in a state.
            not_decayed: ends of names of weights that are excluded from weight decay.
        """
        rates: dict[str, list] = {}
        for name, group in divide(self.groups, named).items():
            first = group.first_step(self.optimization.num_steps)
            if first is None or not group.rate:
                named[name].trainable = False
            if first is None or not named[name].trainable:
                continue
            part = group.name if group.is_separate else REST
            if part not in self.parts:
                optimization = group.optimization(self.optimization) if group.is_separate else self.optimization
                self.parts[part] = Part(optimization, optimization.make_optimizer(), group.clip_norm)
            self.parts[part].keys.add(id(named[name]))
            rate = Rate(group.rate, first)
            rates.setdefault(part, []).append((named[name], rate))
            self._shown[group.name], self._group_of[id(named[name])] = (part, rate), group.name
        order = [*(group.name for group in self.groups), REST]
        self.parts = {name: self.parts[name] for name in order if name in self.parts}
        self._shown = {name: self._shown[name] for name in order if name in self._shown}
        excluded = [variable for name, variable in named.items() if name.endswith(not_decayed)]
        for label, each in self.parts.items():
            each.optimizer.exclude_from_weight_decay(var_list=excluded)
            each.optimizer.set_rates(rates[label])

    @property
    def is_separate(self) -> bool:
        """Whether a group has an optimizer of its own; else all share one, at rates of their own."""
        return list(self.parts) != [REST]

    def describe(self) -> str:
        """Describes how each group learns: `task: adam at 0.0005, constant; layers: sgd at 0.01, constant, from step 40`."""
        found = []
        for name, (part, rate) in self._shown.items():
            own = self.parts[part].optimization
            begins = f", from step {rate.begins:,}" if rate.begins else ""
            found.append(f"{name}: {own.optimizer} at {own.learning_rate * rate.factor:g}, {own.schedule}{begins}")
        return "; ".join(found)

    def beginning_after(self, step: int) -> list[str]:
        """Returns the names of the groups that begin to learn after a step."""
        return [name for name, (_, rate) in self._shown.items() if rate.begins > step]

    def build(self, variables) -> None:
        """Creates the moments of all variables."""
        for part in self.parts.values():
            part.optimizer.build([variables[place] for place in part.places(variables)])

    @property
    def _first(self) -> Optimizer:
        return next(iter(self.parts.values())).optimizer

    @property
    def iterations(self):
        """The number of updates done. `advance` counts a step that is skipped."""
        return self._first.iterations

    @property
    def learning_rate(self):
        """That of the first group; `report` has those of all."""
        return self._first.learning_rate

    @property
    def variables(self) -> list:
        return [variable for part in self.parts.values() for variable in part.optimizer.variables]

    @property
    def named_variables(self) -> dict:
        """The variables by their names in a state, those of each part below its name; of a single part as those of one optimizer."""
        if not self.is_separate:
            return self._first.named_variables
        return {
            f"{group}.{name}": variable
            for group, part in self.parts.items()
            for name, variable in part.optimizer.named_variables.items()
        }

    def report(self, variables, norms) -> dict[str, float]:
        """Returns what a log says of each group: its learning rate, 0 until it begins, and the norm of its gradients if it is finite.

        Args:
            norms: of the gradients of `variables` in the last step, before clipping, float32 (V,).
        """
        step, found = int(self.iterations.numpy()), {}
        for name, (part, rate) in self._shown.items():
            usual = float(self.parts[part].optimizer.learning_rate)
            found[f"{name}/learning_rate"] = usual * rate.factor if step >= rate.begins else 0.0
            own = [self._group_of.get(id(variable)) == name for variable in variables]
            norm = float(np.linalg.norm(np.asarray(norms)[own]))
            found |= {f"{name}/gradient_norm": norm} if math.isfinite(norm) else {}
        return found

    def zero_frozen(self, gradients, variables) -> list:
        """Returns the gradients, zero for variables that are not trained yet."""
        return self._by_part(lambda part, own, their: part.optimizer.zero_frozen(own, their), gradients, variables)

    def clip(self, gradients, variables, squares, clip_norm: float) -> list:
        """Returns the gradients, those of each part scaled down to its own norm.

        Args:
            squares: the squared norms of the gradients, float32 (V,).
            clip_norm: of parts that have none of their own; 0 for none.
        """
        found = list(gradients)
        for part in self.parts.values():
            places = part.places(variables)
            largest = clip_norm if part.clip_norm is None else part.clip_norm
            norm = tf.sqrt(tf.reduce_sum(tf.gather(squares, tf.constant(places, tf.int32))))
            for place, gradient in zip(places, clip_to_norm([found[p] for p in places], norm, largest), strict=True):
                found[place] = gradient
        return found

    def apply(self, gradients, variables) -> None:
        """Updates the variables. Parts of which there is none only count the step."""
        for part in self.parts.values():
            if places := part.places(variables):
                part.optimizer.apply([gradients[p] for p in places], [variables[p] for p in places])
            else:
                part.optimizer.iterations.assign_add(1)

    def advance(self) -> None:
        """Counts a step that changes nothing."""
        for part in self.parts.values():
            part.optimizer.iterations.assign_add(1)

    def _by_part(self, function, gradients, variables) -> list:
        found = list(gradients)
        for part in self.parts.values():
            places = part.places(variables)
            results = function(part, [found[p] for p in places], [variables[p] for p in places])
            for place, result in zip(places, results, strict=True):
                found[place] = result
        return found
