"""Counts inputs that are longer than a network reads, wherever they lose tokens."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterable, Iterator

MUCH = 0.2  # share of inputs from which on their loss is a warning


@dataclasses.dataclass
class Cuts:
    """What was read, how many inputs were too long, and how many tokens these lost."""

    inputs: int = 0
    cut: int = 0
    tokens: int = 0

    def add(self, lost: Iterable[int]) -> None:
        """Counts inputs by the number of tokens that each has lost."""
        for count in lost:
            self.inputs += 1
            self.cut += count > 0
            self.tokens += count

    def __add__(self, other: "Cuts") -> "Cuts":
        return Cuts(self.inputs + other.inputs, self.cut + other.cut, self.tokens + other.tokens)

    def message(self, where: str, limit: str) -> str | None:
        """Returns how much was lost, as a warning where that is much; None where nothing was.

        Args:
            where: the file.
            limit: what they are longer than.
        """
        if not self.cut:
            return None
        kind = "Warning" if self.cut > MUCH * self.inputs else "Note"
        return (
            f"{kind}: {where}: {self.cut:,} of {self.inputs:,} inputs ({self.cut / self.inputs:.0%}) are longer than {limit} and "
            f"were cut, by {self.tokens:,} tokens."
        )


_counted: contextvars.ContextVar[Cuts | None] = contextvars.ContextVar("cuts", default=None)


@contextlib.contextmanager
def count_cuts() -> Iterator[Cuts]:
    """Yields the count of what is cut while the body runs; an outer count does not see it."""
    cuts = Cuts()
    token = _counted.set(cuts)
    try:
        yield cuts
    finally:
        _counted.reset(token)


def add(lost: Iterable[int]) -> None:
    """Counts inputs by the number of tokens that each has lost, if anybody asks."""
    if (cuts := _counted.get()) is not None:
        cuts.add(lost)
