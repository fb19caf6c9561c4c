"""The threshold from which a label is named, chosen for a score: as scikit-learn's `TunedThresholdClassifierCV` does for one label."""

from collections.abc import Callable, Mapping

import numpy as np

THRESHOLD = 0.5  # until an evaluation set chooses one
FEW = 5  # rows with a label, or without it; with fewer its threshold is not chosen


def best_cut(values: np.ndarray, totals: np.ndarray) -> float:
    """Returns the threshold that names as many of the largest values as is best; of equally good ones that in the middle of the
    widest gap.

    Args:
        values: float (N,) from 0 to 1, the largest first.
        totals: float (N + 1,), how good it is to name the first 0 to N.
    """
    edges = np.concatenate([[1.0], values, [0.0]])
    gaps = edges[:-1] - edges[1:]  # (N + 1,), behind the first 0 to N
    totals = np.where(gaps > 0, totals, -np.inf)  # no threshold parts equal values
    best = np.flatnonzero(totals >= totals.max() - 1e-12)
    place = best[np.argmax(gaps[best])]
    return float((edges[place] + edges[place + 1]) / 2)


def accuracy(tp, fp, fn, tn):
    return (tp + tn) / (tp + fp + fn + tn)


def f1(tp, fp, fn, tn):
    return 2 * tp / np.maximum(1, 2 * tp + fp + fn)


def macro_f1(tp, fp, fn, tn):
    return (f1(tp, fp, fn, tn) + f1(tn, fn, fp, tp)) / 2


def mcc(tp, fp, fn, tn):
    """Matthews' correlation; 0 where either side is always the same."""
    spread = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return np.where(spread > 0, (tp * tn - fp * fn) / np.maximum(spread, 1e-12), 0.0)


# Of a label of two: how good numbers of rows are that are rightly named, wrongly named, wrongly and rightly not named.
MEASURES: Mapping[str, Callable] = {"accuracy": accuracy, "positive_f1": f1, "macro_f1": macro_f1, "mcc": mcc}


def best_threshold(probabilities: np.ndarray, right: np.ndarray, measure: Callable = f1) -> float:
    """Returns the threshold of one label with the best score: of probabilities float (N,), and of whether it should be named,
    bool (N,).

    A label that few rows have, or lack, keeps the usual one.
    """
    if right.sum() < FEW or (~right).sum() < FEW:
        return THRESHOLD
    order = np.argsort(-probabilities, kind="stable")
    tp = np.concatenate([[0], np.cumsum(right[order])]).astype(float)  # where the first 0 to N are named
    fp = np.arange(len(tp)) - tp
    return best_cut(probabilities[order], measure(tp, fp, right.sum() - tp, (~right).sum() - fp))
