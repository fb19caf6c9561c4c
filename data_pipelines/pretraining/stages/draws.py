"""The draws that make pairs, for many documents at once."""

import numpy as np


def stream(seed: int) -> np.random.RandomState:
    """Returns a generator whose stream is the same in every version of numpy; thrice as fast as without PCG64."""
    return np.random.RandomState(np.random.PCG64(seed))


class Draws:
    """Independent draws for some of the lanes of a walk; a lane is a document that is cut into pairs.

    Args:
        seed: below 2 ** 32.
    """

    def __init__(self, seed: int):
        self.random = stream(seed)

    def chance(self, lanes: np.ndarray, rate: float) -> np.ndarray:
        """Returns True with that probability, bool (lanes,)."""
        return self.random.random_sample(len(lanes)) < rate

    def between(self, lanes: np.ndarray, low, high) -> np.ndarray:
        """Returns whole numbers from `low` to `high`, which belongs to them; each may be an array (lanes,)."""
        return low + (self.random.random_sample(len(lanes)) * (high - low + 1)).astype(np.int64)

    def heads(self, lanes: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Returns how many of `counts` coins show heads."""
        return self.random.binomial(counts, 0.5)

    def heads_in_turn(self, lanes: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the same where two throw in turn: of the one who begins, and of the other."""
        return self.heads(lanes, (counts + 1) // 2), self.heads(lanes, counts // 2)
