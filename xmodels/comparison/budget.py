"""A budget as a number of steps. Schedules of learning rates end with the budget, so the number is fixed before training begins."""

import dataclasses
import statistics
from collections.abc import Sequence

from data_pipelines.errors import DataError
from xmodels.comparison.plan import Budget

TRACED = 3.0  # times the median: a line of the log above it holds the tracing of a graph
UNITS = {
    "processor_minutes": ("processor minutes", 60.0),
    "device_minutes": ("device minutes", 60.0),
    "flops": ("FLOPs", 1.0),
    "tokens": ("tokens", 1.0),
}


@dataclasses.dataclass(frozen=True)
class StepCost:
    """What a step costs.

    Attributes:
        processor_seconds, seconds: of the process, and of the clock; 0 where nothing was measured.
        flops: of the matrix products, as `--dry_run` counts them; 0 where nobody knows.
        tokens: positions, padding included.
    """

    processor_seconds: float
    seconds: float
    flops: float
    tokens: int

    def of(self, kind: str) -> float:
        """Returns the cost in the unit of a budget."""
        costs = {
            "processor_minutes": self.processor_seconds / 60, "device_minutes": self.seconds / 60, "flops": self.flops,
            "tokens": float(self.tokens),
        }  # fmt: skip
        return costs[kind]


def measure_step(log: Sequence[dict], tokens: int) -> StepCost:
    """Returns what a step of a run costs, by its log.

    Lines that hold the tracing of a graph, three times the median or more, count as the median: a longer run traces no more than a
    short one. The line of the first call has no time.

    Raises:
        DataError: the log holds too few lines.
    """
    lines = [entry for entry in log if entry["kind"] == "train" and entry.get("step_seconds", 0) > 0]
    if len(lines) < 3:
        raise DataError(f"the log of the probe holds {len(lines)} lines with times, and 3 or more are needed")
    return StepCost(
        _mean([entry["step_processor_seconds"] for entry in lines]), _mean([entry["step_seconds"] for entry in lines]),
        tokens * max(entry.get("flops_per_token", 0.0) for entry in lines), tokens,
    )  # fmt: skip


def _mean(values: list[float]) -> float:
    usual = statistics.median(values)
    return statistics.mean([value if value < TRACED * usual else usual for value in values])


def count_steps(budget: Budget, cost: StepCost, most: int | None = None) -> int:
    """Returns how many steps the budget pays for; at least one, at most `most`.

    Raises:
        DataError: nobody knows what a step costs in this unit.
    """
    one = cost.of(budget.kind)
    if not one > 0:
        raise DataError(f"the cost of a step in {UNITS[budget.kind][0]} is not known")
    return max(1, min(int(budget.amount / one * (1 + 1e-9)), most or 10**12))
