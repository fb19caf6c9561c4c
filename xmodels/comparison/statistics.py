"""Scores over seeds, and whether two arms differ: a paired permutation test over test examples, corrected for several comparisons."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

RESAMPLES, BOOTSTRAPS = 4999, 2000
LARGEST = 10**7  # numbers of a part of the resamples that is in memory at once
LEVEL = 0.05
CONFIDENCE = 0.95
SEED = 0  # of the draws, so that a page is the same when it is written again


@dataclasses.dataclass(frozen=True)
class Difference:
    """How much better an arm is than the reference.

    Attributes:
        mean: of the accuracy.
        low, high: a bootstrap interval of 95 %, over test examples.
        p: of the permutation test.
        corrected: the same after Holm's correction; set by `holm`.
    """

    mean: float
    low: float
    high: float
    p: float
    corrected: float = 1.0


def correctness(answers: Sequence[Sequence[str]], truth: Sequence[str]) -> np.ndarray:
    """Returns (S, N) float: 1 where a seed names the true label of an example.

    Raises:
        ValueError: a seed has answered another number of examples.
    """
    wrong = [len(each) for each in answers if len(each) != len(truth)]
    if wrong:
        raise ValueError(f"{wrong[0]:,} answers to {len(truth):,} examples.")
    return np.array([[a == b for a, b in zip(each, truth, strict=True)] for each in answers], np.float64)


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Returns mean and sample standard deviation; None of one value."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None


def paired_test(arm: np.ndarray, reference: np.ndarray) -> Difference:
    """Compares two arms on the same examples. Each example counts with the mean of its correctness over the seeds of an arm.

    The test asks: were the two arms alike, how often would exchanging their correctness at random, example by example, give a mean
    difference as large as this one, in either direction?

    Args:
        arm, reference: (S, N) and (R, N), as `correctness` gives them.
    """
    from scipy import stats

    a, b = arm.mean(axis=0), reference.mean(axis=0)  # (N,)
    difference = a - b
    if not np.any(difference):
        return Difference(0.0, 0.0, 0.0, 1.0)
    flipped = difference[difference != 0]  # of the others the sign changes nothing
    tested = stats.permutation_test(
        (flipped,), np.sum, permutation_type="samples", n_resamples=RESAMPLES, vectorized=True,
        batch=max(1, LARGEST // len(flipped)), rng=np.random.default_rng(SEED),
    )  # fmt: skip
    low, high = difference.min(), difference.max()
    if low < high:  # else every resample is the same
        interval = stats.bootstrap(
            (difference,), np.mean, n_resamples=BOOTSTRAPS, confidence_level=CONFIDENCE, method="percentile",
            batch=max(1, LARGEST // len(difference)), rng=np.random.default_rng(SEED),
        ).confidence_interval  # fmt: skip
        low, high = interval.low, interval.high
    return Difference(float(difference.mean()), float(low), float(high), float(tested.pvalue))


def holm(differences: Mapping[object, Difference]) -> dict[object, Difference]:
    """Returns the same with p-values corrected by Holm (1979): the smallest times their number, the next times one less, and
    never falling."""
    ordered = sorted(differences, key=lambda key: differences[key].p)
    found, largest = {}, 0.0
    for i, key in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - i) * differences[key].p))
        found[key] = dataclasses.replace(differences[key], corrected=largest)
    return {key: found[key] for key in differences}
