"""How often each task of a mixture comes (Raffel et al., 2020, arXiv 1910.10683, section 3.5.2)."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated

from data_pipelines.schema import LARGEST, Constraint

PROPORTIONAL, EQUAL = "proportional", "equal"
KINDS = (PROPORTIONAL, EQUAL)
Positive = Annotated[float, Constraint(lambda value: 0 < value < math.inf, "a number above 0")]


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Shares of the examples that are learnt from.

    Attributes:
        kind: `proportional`: as many as the task has examples. `equal`: of all tasks the same.
        limit: with `proportional`, the most examples that a task counts for: the paper's artificial limit K.
        temperature: with `proportional`, T: shares are raised to 1 / T, so above 1 small tasks come more often.
        rates: {task: its share relative to the others}, in place of `kind`.
    """

    kind: Annotated[str, Constraint(lambda name: name in KINDS, f"one of {', '.join(KINDS)}")] = PROPORTIONAL
    limit: Annotated[int, Constraint(lambda value: 1 <= value <= LARGEST, "a whole number from 1")] | None = None
    temperature: Positive = 1.0
    rates: dict[str, Positive] | None = None

    def describe(self) -> dict:
        """Returns what the configuration of a run says."""
        return dataclasses.asdict(self)


def rates_of(mixture: Mixture, sizes: Mapping[str, int]) -> dict[str, float]:
    """Returns the share of the examples that each task has; they sum to 1.

    Args:
        sizes: {task: its examples}.
    """
    if mixture.rates is not None:
        weights = {name: float(mixture.rates[name]) for name in sizes}
    elif mixture.kind == EQUAL:
        weights = dict.fromkeys(sizes, 1.0)
    else:
        counted = _limit_sizes(mixture, sizes)
        largest = max(counted.values())  # before the power, so that no temperature overflows
        weights = {name: (size / largest) ** (1 / mixture.temperature) for name, size in counted.items()}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def steps_of(mixture: Mixture, sizes: Mapping[str, int], counts: Mapping[str, int]) -> dict[str, int]:
    """Returns {task: its steps in an epoch}, at least one each.

    An epoch has as many examples as there are, where a task counts for no more than the limit. So a proportional mixture without
    limit and temperature has each example once.

    Args:
        sizes: {task: its examples}.
        counts: {task: the batches of one pass over them}, of which the last one may be short.
    """
    total = sum(_limit_sizes(mixture, sizes).values())
    exact = {name: rate * total * counts[name] / sizes[name] for name, rate in rates_of(mixture, sizes).items()}
    return _round_to_whole(exact)


def _limit_sizes(mixture: Mixture, sizes: Mapping[str, int]) -> dict[str, int]:
    return {name: min(size, mixture.limit or size) for name, size in sizes.items()}


def _round_to_whole(exact: Mapping[str, float]) -> dict[str, int]:
    """Returns whole numbers of the same sum, as near as can be, but at least 1."""
    found = {name: max(1, math.floor(value + 1e-9)) for name, value in exact.items()}
    missing = max(0, round(sum(exact.values())) - sum(found.values()))
    for name in sorted(exact, key=lambda each: found[each] - exact[each])[:missing]:
        found[name] += 1
    return found
