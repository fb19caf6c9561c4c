"""Finds the largest batch whose step fits into the memory of a chip, in few compilations."""

import dataclasses
from collections.abc import Callable

from xmodels.tpu.bounds import Cost
from xmodels.tpu.compiler import OutOfMemory

CLOSE = 1.1  # the search ends where the least batch that fails is at most this many times the largest that fits


@dataclasses.dataclass
class Search:
    """What was tried, for batches of one device.

    Attributes:
        compiled: compiles the step for a batch; raises OutOfMemory.
        hbm: bytes of a device.
        unit: batches tried are multiples of this, and of eight times this where they are larger.
        fits: cost by batch. fails: bytes needed by batch, 0 where the compiler did not say.
    """

    compiled: Callable[[int], Cost]
    hbm: int
    unit: int = 1
    fits: dict[int, Cost] = dataclasses.field(default_factory=dict)
    fails: dict[int, int] = dataclasses.field(default_factory=dict)

    def attempt(self, batch: int) -> bool:
        """Compiles one batch and notes whether it fits."""
        try:
            self.fits[batch] = self.compiled(batch)
        except OutOfMemory as error:
            self.fails[batch] = error.needed
            self.hbm = error.available or self.hbm
        return batch in self.fits

    @property
    def largest(self) -> int:
        """The largest batch known to fit; 0 for none."""
        return max(self.fits, default=0)

    @property
    def smallest_failing(self) -> int | None:
        return min(self.fails, default=None)

    def run(self, most: int) -> None:
        """Tries batches until `most` were compiled in all, or little is left to find."""
        while len(self.fits) + len(self.fails) < most:
            batch = self.next_batch()
            if batch is None:
                return
            self.attempt(batch)

    def next_batch(self) -> int | None:
        """Returns what to try next: where memory, taken as a straight line in the batch, meets the limit. None where done."""
        low, high = self.largest, self.smallest_failing
        if high is not None and (high <= max(CLOSE * low, low + self.unit) or high <= self.unit):
            return None
        candidate = self._line()
        if high is not None and not low < candidate < high:
            candidate = (low + high) // 2
        candidate = self._round_down(candidate)
        if high is not None and not low < candidate < high:
            return None
        if high is None and candidate <= low:  # the straight line says that no more fits: see whether it is right
            candidate = low + (8 * self.unit if low >= 8 * self.unit else self.unit)
        return candidate

    def _line(self) -> int:
        if not self.fits:
            return self.smallest_failing // 2
        points = sorted((batch, cost.memory) for batch, cost in self.fits.items())
        batch, memory = points[-1]
        if len(points) > 1:
            slope = (memory - points[0][1]) / (batch - points[0][0])
        else:
            slope = self.fits[batch].temporaries / batch  # weights do not grow with the batch
        if slope <= 0:
            return 2 * batch
        return min(batch + int((self.hbm - memory) / slope), 8 * batch)

    def _round_down(self, batch: int) -> int:
        step = 8 * self.unit if batch > 8 * self.unit else self.unit
        return max(self.unit, batch // step * step)
