"""What a row of each label counts in the loss."""

import math
from collections.abc import Sequence

import numpy as np

from data_pipelines.errors import UsageError

BALANCED = "balanced"


def class_weights(text: str | None, labels: Sequence[str], ids: np.ndarray) -> list[float] | None:
    """Returns the weight of each label, in the order of their ids; None if `text` is None, for all the same.

    Args:
        text: `balanced`, N / (C n) for a label with n of N rows, as scikit-learn has it; or `LABEL:WEIGHT,...`, 1 for others.
        ids: int (N,), the labels of the training rows.

    Raises:
        UsageError: a part names no label, or its weight is no number above 0.
    """
    if text is None:
        return None
    if text == BALANCED:
        counts = np.bincount(ids, minlength=len(labels))
        return [len(ids) / (len(labels) * max(1, int(count))) for count in counts]
    return _given(text, labels)


def label_weights(text: str | None, labels: Sequence[str], truth: np.ndarray) -> list[tuple[float, float]] | None:
    """Returns what a row without a label and a row with it count in the loss of that label, for each of C labels; None if `text` is
    None, for all the same.

    Args:
        text: `balanced`, N / (2 n) for the n of N rows that have a label, and likewise for those that do not, as scikit-learn has it
            for one classifier a label; or `LABEL:WEIGHT,...` of rows that have the label, 1 for all others.
        truth: 0 or 1, (N, C), of the training rows.

    Raises:
        UsageError: as `class_weights`.
    """
    if text is None:
        return None
    if text == BALANCED:
        columns = (column > 0.5 for column in np.asarray(truth).T)
        return [tuple(class_weights(BALANCED, ("without", "with"), column.astype(int))) for column in columns]
    return [(1.0, weight) for weight in _given(text, labels)]


def _given(text: str, labels: Sequence[str]) -> list[float]:
    """Returns the weights of `LABEL:WEIGHT,...`."""
    found = dict.fromkeys(labels, 1.0)
    for part in text.split(","):
        name, colon, number = part.strip().rpartition(":")
        weight = _number(number)
        if not colon or name not in found or weight is None:
            raise UsageError(
                f"--class_weights={text}: {part.strip()!r} is no LABEL:WEIGHT with a label of the training rows and a weight above 0. "
                f"Known labels: {', '.join(labels[:20])}. Or give {BALANCED}."
            )
        found[name] = weight
    return list(found.values())


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None
