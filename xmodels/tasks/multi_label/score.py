"""F1 of labels, of which a text may have several, and the thresholds that suit an evaluation set."""

import numpy as np

from data_pipelines.escaping import for_terminal
from xmodels.tasks.base import pictures
from xmodels.tasks.base.answer import Question
from xmodels.tasks.base.score import Mistake, check_plots, predict
from xmodels.tasks.multi_label.read import label_rows, read_rows
from xmodels.tasks.multi_label.task import THRESHOLD

DECISIVE, CHOSEN = "micro_f1", ("thresholds",)
REPORTED = ("macro_f1",)
FEW = 5  # texts with a label; with fewer its threshold is not chosen


def evaluate(
    predictor, test_file: str, text_column: str | None, text_pair_column: str | None, label_column: str | None,
    batch_size: int | None, plots: str | None,
) -> dict:  # fmt: skip
    """Prints and returns the scores, with the thresholds of the run; arguments as in `launch/evaluate.py`.

    With `plots`, pictures go to that folder.
    """
    check_plots(plots)
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
    settings = {"thresholds": predictor.thresholds, "labels": predictor.labels}
    for path in draw(plots, probabilities, truth, settings) if plots else ():
        print(f"  picture: {path}")
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


def confusion_of(named: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How often a label (row) is taken for another (column), of bool (N, C): int (C + 1, C + 1), the last for none.

    In a text, each label that is missing is taken for each that is too many; without one of the other kind, for none.
    """
    count, missing, extra = right.shape[1], right & ~named, named & ~right
    table = np.zeros((count + 1, count + 1), int)
    table[:count, :count] = missing.T.astype(int) @ extra
    np.fill_diagonal(table[:count, :count], (named & right).sum(axis=0))
    table[:count, count] = missing[~extra.any(axis=1)].sum(axis=0)
    table[count, :count] = extra[~missing.any(axis=1)].sum(axis=0)
    return table


def draw(folder: str, predictions, truth, settings: dict) -> list[str]:
    """Which label is taken for which, and how well all of them and the commonest are found from each threshold on."""
    probabilities, right = np.asarray(predictions), np.asarray(truth) > 0.5
    labels, thresholds = pictures.drawable(settings["labels"]), settings["thresholds"]
    counts = right.sum(axis=0)
    table = confusion_of(probabilities >= np.asarray(thresholds), right)
    names, small = pictures.folded([*labels, "(none)"], table, np.append(counts, len(right) + 1))
    commonest = np.sort(np.argsort(-counts, kind="stable")[: pictures.MOST])
    panels = [("all labels", probabilities, right, None)]
    panels += [(labels[k], probabilities[:, k], right[:, k], thresholds[k]) for k in commonest]
    figures = {
        "confusions": pictures.confusions(names, small, "labels of texts"),
        "thresholds": pictures.by_threshold(panels),
    }
    return pictures.write(folder, figures)


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
