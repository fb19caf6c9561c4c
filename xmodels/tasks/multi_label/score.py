"""F1 of labels, of which a text may have several, and the thresholds that suit an evaluation set."""

import numpy as np

from data_pipelines.escaping import for_terminal
from xmodels.tasks.base.answer import Question
from xmodels.tasks.base.score import Mistake, predict
from xmodels.tasks.multi_label.read import label_rows, read_rows
from xmodels.tasks.multi_label.task import THRESHOLD

DECISIVE, CHOSEN = "micro_f1", ("thresholds",)
REPORTED = ("macro_f1",)
FEW = 5  # texts with a label; with fewer its threshold is not chosen


def evaluate(
    predictor, test_file: str, text_column: str | None, text_pair_column: str | None, label_column: str | None,
    batch_size: int | None,
) -> dict:  # fmt: skip
    """Prints and returns the scores, with the thresholds of the run; arguments as in `launch/evaluate.py`."""
    columns = predictor.columns_of(
        Question(text_column=text_column, text_pair_column=text_pair_column), label_column
    )  # fmt: skip
    rows = read_rows(test_file, columns, predictor.separator)
    truth = label_rows(test_file, rows, predictor.labels)
    predictions = predict(predictor, [row.texts for row in rows], batch_size or 32)
    probabilities = np.array([list(each.probabilities.values()) for each in predictions], np.float32)
    found = scores(probabilities, truth, predictor.thresholds) | {"labels": list(predictor.labels)}
    print(
        f"{test_file}: {len(rows):,} rows, micro F1 {found['micro_f1']:.4f}, macro F1 {found['macro_f1']:.4f}, "
        f"all labels right {found['exact_match']:.4f}"
    )
    width = max(map(len, [*predictor.labels, "label"]))
    print(f"  {'label':{width}}  rows  threshold    F1")
    for name, count, threshold, f1 in zip(
        predictor.labels, truth.sum(axis=0), predictor.thresholds, found["f1"], strict=True
    ):
        print(for_terminal(f"  {name:{width}}  {int(count):4}  {threshold:9.3f}  {f1:.3f}"))
    return found


def from_arrays(outputs, examples, labels):
    return outputs["probabilities"], examples["labels"]


def scores(probabilities, truth, thresholds) -> dict:
    """micro_f1, macro_f1, exact_match, and f1 of each label: of probabilities (N, C) and of what is right, 0 or 1."""
    chosen, right = np.asarray(probabilities) >= np.asarray(thresholds), np.asarray(truth) > 0.5
    both, either = (chosen & right).sum(axis=0), chosen.sum(axis=0) + right.sum(axis=0)  # (C,)
    each = 2 * both / np.maximum(1, either)
    return {
        "micro_f1": float(2 * both.sum() / max(1, either.sum())),
        "macro_f1": float(each.mean()),
        "exact_match": float((chosen == right).all(axis=1).mean()),
        "f1": each.tolist(),
    }


def mistakes(outputs, examples, labels, settings):
    """Each label that is missing or too many is one."""
    probabilities, right = outputs["probabilities"], examples["labels"] > 0.5
    named = probabilities >= np.asarray(settings["thresholds"])
    return [
        Mistake(
            int(row),
            labels[k] if right[row, k] else "none",
            "none" if right[row, k] else labels[k],
            sure(probabilities[row, k], right[row, k]),
        )
        for row, k in zip(*np.nonzero(named != right), strict=True)
    ]


def sure(probability: float, right: bool) -> float:
    """The probability of what was answered, where it is wrong."""
    return float(1.0 - probability if right else probability)


def chosen(predictions, truth) -> dict:
    """For each label the threshold with the best F1; of equally good ones that in the middle of the widest gap.

    A label that few texts have keeps the usual one.
    """
    probabilities, right = np.asarray(predictions, np.float64), np.asarray(truth) > 0.5
    return {"thresholds": [best_threshold(p, t) for p, t in zip(probabilities.T, right.T, strict=True)]}


def best_threshold(probabilities: np.ndarray, right: np.ndarray) -> float:
    """Of one label: float (N,), bool (N,)."""
    if right.sum() < FEW or (~right).sum() < FEW:
        return THRESHOLD
    order = np.argsort(-probabilities, kind="stable")
    values, hits = probabilities[order], np.cumsum(right[order])
    f1 = 2 * hits / (np.arange(1, len(values) + 1) + right.sum())  # where the first so many are named
    below = np.append(values[1:], 0.0)
    gaps = values - below
    f1[gaps <= 0] = -1.0  # no threshold parts equal probabilities
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    place = best[np.argmax(gaps[best])]
    return float((values[place] + below[place]) / 2)
