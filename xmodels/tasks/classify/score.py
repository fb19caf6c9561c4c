"""Accuracy, F1 of each label, and confusions."""

import keras
import numpy as np

from data_pipelines.corpora.tables import read_table
from data_pipelines.escaping import for_terminal
from data_pipelines.finetuning.row_checks import label_ids
from xmodels.tasks.base import pictures
from xmodels.tasks.base.score import Mistake, score_inputs
from xmodels.tasks.classify.answer import predictions_of
from xmodels.tasks.classify.thresholds import MEASURES, THRESHOLD, best_threshold

DRAWS_LAST = True
CHOSEN, SETTINGS = ("threshold",), ("positive_label",)
REPORTED = ("accuracy",)
CONFUSED = 20  # labels; of more the confusions are not printed


def evaluate(
    predictor, test_file: str, text_column: str | None, text_pair_column: str | None, label_column: str | None,
    batch_size: int | None, plots: str | None,
) -> dict:  # fmt: skip
    """Prints and returns accuracy, F1 of each label and the confusion matrix; arguments as in `launch/evaluate.py`.

    With `plots`, pictures go to that folder.
    """
    rows = read_table(test_file, predictor.columns_of(text_column, text_pair_column, label_column))
    label_ids(test_file, rows, list(predictor.labels))  # says which label is unknown
    texts, truth = [row.texts for row in rows], [row.label for row in rows]
    return score_inputs(predictor, test_file, texts, truth, batch_size, plots, predictor.task.settings)


def from_arrays(outputs: dict, examples: dict, labels: list[str]) -> tuple[list, list[str]]:
    """Returns what `scores` takes, where another score than the accuracy chooses the epoch."""
    return predictions_of(outputs, labels), [labels[label] for label in examples["labels"]]


def mistakes(outputs: dict, examples: dict, labels: list[str], settings: dict) -> list[Mistake]:
    """Returns the wrong answers."""
    truth, probabilities = examples["labels"], outputs["probabilities"]
    found = name_labels(
        outputs["label_ids"], probabilities, labels, **{n: v for n, v in settings.items() if n in (*CHOSEN, *SETTINGS)}
    )
    wrong = np.flatnonzero(found != truth).tolist()
    return [Mistake(i, labels[truth[i]], labels[found[i]], float(probabilities[i, found[i]])) for i in wrong]


def matthews(confusion: np.ndarray) -> float:
    """Matthews' correlation of confusion[true][answered], of any number of labels (Gorodkin, 2004); 0 where either side is always the
    same."""
    total, right = confusion.sum(), np.trace(confusion)
    truth, answered = confusion.sum(axis=1).astype(float), confusion.sum(axis=0).astype(float)
    spread = (total**2 - (truth**2).sum()) * (total**2 - (answered**2).sum())
    return float((right * total - (truth * answered).sum()) / np.sqrt(spread)) if spread > 0 else 0.0


def arrays_of(predictions: list, truth: list[str]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Returns the labels, their probabilities float32 (N, C), and the ids of those that are right (N,)."""
    ids = {name: index for index, name in enumerate(predictions[0].probabilities)}
    probabilities = np.array([list(each.probabilities.values()) for each in predictions], np.float32)
    return list(ids), probabilities, np.array([ids[name] for name in truth])


def positive_of(labels: list[str], positive_label: str | None) -> int:
    """Returns the id of the positive label of two: by default the second."""
    return labels.index(positive_label) if positive_label is not None else 1


def name_labels(likeliest, probabilities, labels, threshold=None, positive_label=None) -> np.ndarray:
    """Returns the ids of the labels that are named, (N,): the likeliest, or of two by the threshold of the positive one, as in
    `Classify`."""
    if threshold is None:
        return np.asarray(likeliest)
    positive = positive_of(labels, positive_label)
    return np.where(probabilities[:, positive] >= np.float32(threshold), positive, 1 - positive)


def chosen(predictions: list, truth: list[str], metric: str, positive_label: str | None = None) -> dict:
    """Returns the threshold of the positive label with the best score."""
    labels, probabilities, right = arrays_of(predictions, truth)
    positive = positive_of(labels, positive_label)
    return {"threshold": best_threshold(probabilities[:, positive].astype(float), right == positive, MEASURES[metric])}


def area_under_roc(scores: np.ndarray, right: np.ndarray) -> float:
    """Returns the area under the ROC curve: how often a row of the label has a higher score than a row without it, where equal ones
    count half. NaN where either kind is missing.

    Args:
        scores: float (N,).
        right: bool (N,), whether a row has the label.
    """
    from sklearn.metrics import roc_auc_score  # it takes a second to import

    return float(roc_auc_score(right, scores)) if 0 < right.sum() < len(right) else float("nan")


def confusion_of(found: np.ndarray, right: np.ndarray, count: int) -> np.ndarray:
    """Returns how many rows of each of C labels (C, ...) are taken for each (..., C)."""
    confusion = np.zeros((count, count), int)
    np.add.at(confusion, (right, found), 1)
    return confusion


def draw(folder: str, predictions: list, truth: list[str], settings: dict) -> list[str]:
    """Returns which label is taken for which; of two labels also how well the positive one is found from each threshold on."""
    labels, probabilities, right = arrays_of(predictions, truth)
    threshold, positive_label = settings.get("threshold"), settings.get("positive_label")
    found = name_labels(probabilities.argmax(axis=1), probabilities, labels, threshold, positive_label)
    positive = positive_of(labels, positive_label)
    labels, table = pictures.shorten_names(labels), confusion_of(found, right, len(labels))
    names, small = pictures.fold_rare_labels(labels, table, table.sum(axis=1))
    figures = {"confusions": pictures.confusions(names, small, "rows by label")}
    if len(labels) == 2:
        panel = labels[positive], probabilities[:, positive], right == positive
        figures["thresholds"] = pictures.by_threshold([(*panel, THRESHOLD if threshold is None else threshold)])
    return pictures.write(folder, figures)


def scores(
    predictions: list, truth: list[str], threshold: float | None = None, positive_label: str | None = None
) -> dict:
    """Returns accuracy, macro_f1, mcc, f1 of each label, loss in nats, confusion[true][answered], and of two labels positive_f1 and
    roc_auc."""
    labels, probabilities, right = arrays_of(predictions, truth)
    found = name_labels(probabilities.argmax(axis=1), probabilities, labels, threshold, positive_label)
    confusion = confusion_of(found, right, len(labels))
    both = confusion.sum(axis=0) + confusion.sum(axis=1)
    each = 2 * np.diagonal(confusion) / np.maximum(1, both)  # (C,)
    of_two, positive = {}, positive_of(labels, positive_label)
    if len(labels) == 2:
        area = area_under_roc(probabilities[:, positive], right == positive)
        of_two = {"positive_f1": float(each[positive]), "roc_auc": area}
    loss = keras.losses.sparse_categorical_crossentropy(right, probabilities)
    return {
        "accuracy": float((found == right).mean()),
        "macro_f1": float(each.mean()),
        "mcc": matthews(confusion),
        **of_two,
        "f1": dict(zip(labels, each.tolist(), strict=True)),
        **({} if threshold is None else {"threshold": threshold}),
        "loss": float(np.mean(loss)),
        "confusion": confusion.tolist(),
    }


def report(test_file: str, found: dict, inputs: list, predictions: list, truth: list[str], settings: dict) -> None:
    """Prints the scores, with the confusions of each label."""
    area = f", ROC AUC {found['roc_auc']:.4f}" if np.isfinite(found.get("roc_auc", np.nan)) else ""
    print(
        f"{test_file}: {len(truth):,} rows, accuracy {found['accuracy']:.4f}, macro F1 {found['macro_f1']:.4f}, "
        f"MCC {found['mcc']:.4f}{area}"
    )
    labels = list(found["f1"])
    counts = {name: truth.count(name) for name in labels}
    print(f"  always predicting the most frequent label would score {max(counts.values()) / len(truth):.4f}")
    width = max(map(len, [*labels, "label"]))
    print(f"  {'label':{width}}  rows    F1   predicted as")
    for name, row in zip(labels, found["confusion"], strict=True):
        pairs = zip(labels, row, strict=True) if len(labels) <= CONFUSED else ()
        confused = ", ".join(f"{other} {count}" for other, count in pairs if count)
        print(for_terminal(f"  {name:{width}}  {counts[name]:4}  {found['f1'][name]:.3f}  {confused}"))
