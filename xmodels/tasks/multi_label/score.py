"""F1 of labels, of which a text may have several, and the thresholds that suit an evaluation set."""

import numpy as np

from data_pipelines.escaping import for_terminal
from xmodels.tasks.base import pictures
from xmodels.tasks.base.score import Mistake, score_inputs
from xmodels.tasks.classify.thresholds import FEW, MEASURES, best_cut, best_threshold
from xmodels.tasks.multi_label.read import label_rows, read_rows

SELECTION_METRIC, CHOSEN = "micro_f1", ("thresholds",)
REPORTED = ("micro_f1", "macro_f1", "accuracy")
ROUNDS = 50  # of a search for thresholds; some rounds are usual


def evaluate(
    predictor, test_file: str, text_column: str | None, text_pair_column: str | None, label_column: str | None,
    batch_size: int | None, plots: str | None,
) -> dict:  # fmt: skip
    """Prints and returns the scores, with the thresholds of the run; arguments as in `launch/evaluate.py`.

    With `plots`, pictures go to that folder.
    """
    rows = read_rows(test_file, predictor.columns_of(text_column, text_pair_column, label_column), predictor.separator)
    truth, labels = label_rows(rows, predictor.labels), list(predictor.labels)
    settings = {"thresholds": predictor.thresholds, "labels": labels}
    found = score_inputs(predictor, test_file, [row.texts for row in rows], truth, batch_size, plots, settings)
    return found | {"labels": labels}


def for_scores(predictions) -> np.ndarray:
    return np.array([list(each.probabilities.values()) for each in predictions], np.float32)


def report(test_file: str, found: dict, inputs: list, predictions, truth, settings: dict) -> None:
    """Prints the scores, and those of each label."""
    print(
        f"{test_file}: {len(truth):,} rows, micro F1 {found['micro_f1']:.4f}, macro F1 {found['macro_f1']:.4f}, "
        f"accuracy (all labels right) {found['accuracy']:.4f}"
    )
    labels, thresholds = settings["labels"], settings["thresholds"]
    width = max(map(len, [*labels, "label"]))
    print(f"  {'label':{width}}  rows  threshold    F1")
    for name, count, threshold, f1 in zip(labels, truth.sum(axis=0), thresholds, found["f1"], strict=True):
        print(for_terminal(f"  {name:{width}}  {int(count):4}  {threshold:9.3f}  {f1:.3f}"))


def from_arrays(outputs, examples, labels):
    return outputs["probabilities"], examples["labels"]


def scores(probabilities, truth, thresholds) -> dict:
    """Returns micro_f1, macro_f1, accuracy (all labels of a text right) and f1 (C,), as scikit-learn has them: of probabilities
    (N, C) and of what is right, 0 or 1."""
    chosen, right = np.asarray(probabilities) >= np.asarray(thresholds), np.asarray(truth) > 0.5
    both, either = (chosen & right).sum(axis=0), chosen.sum(axis=0) + right.sum(axis=0)  # (C,)
    each = 2 * both / np.maximum(1, either)
    return {
        "micro_f1": float(2 * both.sum() / max(1, either.sum())),
        "macro_f1": float(each.mean()),
        "accuracy": float((chosen == right).all(axis=1).mean()),
        "f1": each.tolist(),
    }


def confusion_of(named: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns how often a label (row) is taken for another (column), of bool (N, C): int (C + 1, C + 1), the last for none.

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
    """Returns which label is taken for which, and how well all of them and the commonest are found from each threshold on."""
    probabilities, right = np.asarray(predictions), np.asarray(truth) > 0.5
    labels, thresholds = pictures.shorten_names(settings["labels"]), settings["thresholds"]
    counts = right.sum(axis=0)
    table = confusion_of(probabilities >= np.asarray(thresholds), right)
    names, small = pictures.fold_rare_labels([*labels, "(none)"], table, np.append(counts, len(right) + 1))
    commonest = np.sort(np.argsort(-counts, kind="stable")[: pictures.MOST])
    panels = [("all labels", probabilities, right, None)]
    panels += [(labels[k], probabilities[:, k], right[:, k], thresholds[k]) for k in commonest]
    figures = {
        "confusions": pictures.confusions(names, small, "labels of texts"),
        "thresholds": pictures.by_threshold(panels),
    }
    return pictures.write(folder, figures)


def mistakes(outputs, examples, labels, settings):
    """Returns each label that is missing or too many is one."""
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
    """Returns the probability of what was answered, where it is wrong."""
    return float(1.0 - probability if right else probability)


def chosen(predictions, truth, metric: str) -> dict:
    """Returns the thresholds with the best score; of equally good ones those in the middle of the widest gaps.

    A label that few texts have, or lack, keeps the usual one.
    """
    probabilities, right = np.asarray(predictions, np.float64), np.asarray(truth) > 0.5
    return {"thresholds": CHOICES[metric](probabilities, right).tolist()}


def best_of_each(probabilities: np.ndarray, right: np.ndarray, measure=MEASURES["positive_f1"]) -> np.ndarray:
    """Returns for each label the threshold with the best score of its own, (C,); with F1 that of macro F1."""
    return np.array([best_threshold(p, t, measure) for p, t in zip(probabilities.T, right.T, strict=True)])


def best_micro_f1(probabilities: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns the thresholds with the best micro F1, (C,).

    F1 is 2 TP / (named + right). No thresholds do better than F where none make 2 TP - F named larger, which is a sum over labels
    (Dinkelbach, 1967), so steps to the best of that sum end at the best F.
    """
    thresholds = best_of_each(probabilities, right)
    for _ in range(ROUNDS):
        best, before = scores(probabilities, right, thresholds)["micro_f1"], thresholds
        thresholds = improve_thresholds(probabilities, right, before, lambda k, best=best: 2.0 * right[:, k] - best)
        if np.array_equal(thresholds, before):
            break
    return thresholds


def best_accuracy(probabilities: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Thresholds with a good share of texts of which all labels are right, (C,).

    They begin with the most right decisions for each label. Then each in turn is the best one beside the others, so the share never
    falls.
    """
    thresholds = best_of_each(probabilities, right, MEASURES["accuracy"])
    for _ in range(ROUNDS):
        before = thresholds.copy()
        for k in range(len(thresholds)):
            wrong = (probabilities >= thresholds) != right
            others = ~np.delete(wrong, k, axis=1).any(axis=1)  # (N,), all other labels are right
            gains = np.where(right[:, k], 1.0, -1.0) * others
            thresholds[k] = improve_thresholds(
                probabilities[:, [k]], right[:, [k]], thresholds[[k]], lambda _, g=gains: g
            )[0]
        if np.array_equal(thresholds, before):
            break
    return thresholds


def improve_thresholds(probabilities: np.ndarray, right: np.ndarray, thresholds: np.ndarray, gains_of) -> np.ndarray:
    """Returns the thresholds (C,) that name the texts with the largest sum of gains, where that is more than now.

    Args:
        gains_of: number of a label -> float (N,), what it is worth to name it of each text.
    """
    found = thresholds.copy()
    for k, (values, truth) in enumerate(zip(probabilities.T, right.T, strict=True)):
        if min(truth.sum(), (~truth).sum()) < FEW:
            continue
        order, gains = np.argsort(-values, kind="stable"), gains_of(k)
        totals = np.concatenate([[0.0], np.cumsum(gains[order])])
        cut = best_cut(values[order], totals)
        if gains[values >= cut].sum() > gains[values >= found[k]].sum() + 1e-9:
            found[k] = cut
    return found


CHOICES = {"macro_f1": best_of_each, "micro_f1": best_micro_f1, "accuracy": best_accuracy}
