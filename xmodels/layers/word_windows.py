"""Words and the windows around them, in blocks, so that what a window sees are products of small matrices."""

import dataclasses
import functools
from typing import Any

from keras import ops

BLOCK = 32  # words of a block; a product of a block is with this many words and those that its windows reach beyond


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows of a batch of rows of N words: K blocks of n words each, N = K n.

    Attributes:
        starts, ends: int (B, N), the first place of the window of each word and that behind it; 0 where there is no word.
        reach: c, the most places to each side.
    """

    starts: Any
    ends: Any
    reach: int

    @property
    def length(self) -> int:
        """N."""
        return self.starts.shape[1]

    @property
    def block(self) -> int:
        """n: `BLOCK` where rows divide by it, else the whole row."""
        return self.length if self.length % BLOCK else BLOCK

    def blocks(self, x):
        """Returns what stands at each place, (B, N, ...), by blocks: (B, K, n, ...)."""
        return ops.reshape(x, (x.shape[0], -1, self.block, *x.shape[2:]))

    def rows(self, x):
        """Returns blocks as rows again: (B, K, n, ...) -> (B, N, ...)."""
        return ops.reshape(x, (x.shape[0], self.length, *x.shape[3:]))

    def nearby(self, x):
        """Returns what stands at the places that each block sees, zeros beyond the row: (B, N, ...) -> (B, K, n + 2c, ...)."""
        padded = self._padded(x)
        firsts = range(0, self.length, self.block)
        return ops.stack([padded[:, k : k + self.block + 2 * self.reach] for k in firsts], axis=1)

    def sides(self, x):
        """Returns what stands at the places of the window of each: (B, N, ...) -> (B, N, 2c, ...), those before it first."""
        padded = self._padded(x)
        return ops.stack([padded[:, s : s + self.length] for s in self._sides], axis=2)

    @functools.cached_property
    def mask(self):
        """Returns which of its `nearby` words stand in the window of each, itself not: float32 (B, K, n, n + 2c)."""
        place = ops.arange(self.length, dtype=self.starts.dtype)
        seen = self.blocks(place[None])[0, :, :1] + ops.arange(-self.reach, self.block + self.reach, dtype=place.dtype)
        seen = seen[None, :, None]  # (1, K, 1, n + 2c)
        starts, ends, own = (self.blocks(x)[..., None] for x in (self.starts, self.ends, place[None]))
        return ops.cast((seen >= starts) & (seen < ends) & (seen != own), "float32")

    @property
    def side_mask(self):
        """Returns which of its `sides` stand in the window of each: float32 (B, N, 2c)."""
        place = ops.arange(self.length, dtype=self.starts.dtype)[:, None] + ops.array(
            [side - self.reach for side in self._sides], self.starts.dtype
        )  # (N, 2c)
        return ops.cast((place >= self.starts[..., None]) & (place < self.ends[..., None]), "float32")

    @property
    def sizes(self):
        """Returns how many words the window of each has, float32 (B, N)."""
        return ops.cast(ops.maximum(self.ends - self.starts - 1, 0), "float32")

    @property
    def _sides(self) -> list[int]:
        return [side for side in range(2 * self.reach + 1) if side != self.reach]

    def _padded(self, x):
        return ops.pad(x, [[0, 0], [self.reach, self.reach], *[[0, 0]] * (len(x.shape) - 2)])
