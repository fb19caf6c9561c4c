"""What layouts of segments give to the writer of records: clean segments and labels, without masks and special tokens."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from data_pipelines.text.hashes import ranges


@dataclasses.dataclass
class Examples:
    """A batch of N examples before they are framed.

    Attributes:
        marked: marked pieces, int32 (T,), from which the segments are taken.
        spans: int64 (N, S, 2), the begin and the end of each of the S segments in `marked`.
        labels: whole numbers (N,) by the name of their feature, such as `next_sentence_labels`.
    """

    marked: np.ndarray
    spans: np.ndarray
    labels: dict[str, np.ndarray]

    @classmethod
    def of(cls, marked: np.ndarray, spans: Sequence, labels: Mapping[str, Sequence[int]], num_segments: int):
        """Returns the examples of lists of N times S spans and of N labels."""
        spans = np.array(spans, np.int64).reshape(-1, num_segments, 2)
        return cls(marked, spans, {name: np.array(values, np.int64) for name, values in labels.items()})

    def __len__(self) -> int:
        return len(self.spans)

    def lengths(self) -> np.ndarray:
        """Returns pieces of each segment, int64 (N, S)."""
        return self.spans[..., 1] - self.spans[..., 0]

    @functools.cached_property
    def flat(self) -> np.ndarray:
        """The pieces of all segments, side by side, int32 (T',)."""
        return self.marked[ranges(self.spans[..., 0].ravel(), self.lengths().ravel())]

    def shuffled(self, seed: int) -> "Examples":
        """Returns the same examples in another order."""
        return self.taken(np.random.RandomState(seed).permutation(len(self)))

    def taken(self, rows) -> "Examples":
        """Returns some of the examples."""
        return Examples(self.marked, self.spans[rows], {name: v[rows] for name, v in self.labels.items()})

    def batches(self, size: int):
        """Yields the same examples in batches of at most `size`."""
        for start in range(0, len(self), size):
            yield self.taken(slice(start, start + size))
