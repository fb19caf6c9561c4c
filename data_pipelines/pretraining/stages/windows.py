"""Windows over a text that is longer than a network reads (Devlin et al., 2018, section 4.2, and its script)."""

import numpy as np


def windows(num_tokens: int, capacity: int, stride: int) -> list[tuple[int, int]]:
    """Returns (first token, number of tokens) of windows of at most `capacity` tokens that begin `stride` apart and cover all."""
    made, start = [], 0
    while True:
        length = min(num_tokens - start, capacity)
        made.append((start, length))
        if start + length >= num_tokens:
            return made
        start += min(length, stride)


def most_context(spans: list[tuple[int, int]], num_tokens: int) -> list[np.ndarray]:
    """Returns for every window which of its tokens see more text on both sides here than in any other, bool (tokens,) each.

    The score is Google's: the smaller of the tokens left and right, and a hundredth of the length of the window.
    """
    best, owner = np.full(num_tokens, -1.0), np.zeros(num_tokens, np.int64)
    for number, (start, length) in enumerate(spans):
        place = np.arange(length)
        score = np.minimum(place, length - 1 - place) + 0.01 * length
        better = score > best[start : start + length]
        best[start : start + length][better] = score[better]
        owner[start : start + length][better] = number
    return [owner[start : start + length] == number for number, (start, length) in enumerate(spans)]
