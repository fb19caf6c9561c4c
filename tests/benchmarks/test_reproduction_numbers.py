"""What pages of reproductions compute themselves: which rates are tried, and what a longer memory adds."""

import numpy as np
import pytest

from benchmarks.reproductions.commands import bracketed
from benchmarks.reproductions.stream_scores import BLOCK, gain

RATES = (1e-4, 1e-3, 1e-2, 1e-1)


@pytest.mark.parametrize(
    ("losses", "tried"),
    [
        ((3.0, 1.0, 2.0, 0.5), {1e-4, 1e-3, 1e-2}),  # a worse neighbour on both sides, so the last one is never seen
        ((1.0, 2.0, 3.0, 4.0), {1e-4, 1e-3, 1e-2}),
        ((4.0, 3.0, 2.0, 1.0), {1e-3, 1e-2, 1e-1}),
    ],
)
def test_rates_are_tried_until_the_best_one_has_worse_neighbours(losses, tried):
    found = bracketed(str, dict(zip(map(str, RATES), losses, strict=True)).get, RATES, slice(1, 3))
    assert set(found) == tried and all(run == str(rate) for rate, run in found.items())


def scored(segments: np.ndarray) -> dict:
    return {"nats": float(segments.mean()), "segments": segments.tolist()}


def test_what_a_memory_adds_has_the_error_of_paired_differences():
    rng = np.random.default_rng(0)
    short = rng.normal(5.0, 1.0, 100 * BLOCK)  # parts of a text differ far more than memories do
    noise = rng.normal(0.0, 0.02, len(short))
    share, error = gain(scored(short - 0.05 + noise), scored(short))
    assert share == pytest.approx(0.01, abs=0.001)
    assert error == pytest.approx(0.02 / np.sqrt(len(short)) / 5.0, rel=0.3)
    assert gain(scored(short), scored(short)) == (0.0, 0.0)
