"""Scores a classifier on labelled rows."""

import keras
import numpy as np

from data_pipelines.corpora.tables import read_table
from data_pipelines.files import write_json
from xmodels.jobs.apply import ask, check_output, load_predictor, remembered_columns
from xmodels.jobs.labelled import label_ids


def evaluate(
    model_dir: str, test_file: str, text_column: str | None, text_pair_column: str | None, label_column: str | None,
    batch_size: int | None, output_file: str | None,
) -> dict:  # fmt: skip
    """Prints and returns accuracy, F1 of each label and the confusion matrix; arguments as in `launch/evaluate.py`."""
    check_output(output_file)
    predictor = load_predictor(model_dir)
    rows = read_table(test_file, remembered_columns(model_dir, text_column, text_pair_column, label_column))
    labels = list(predictor.labels)
    truth = label_ids(test_file, rows, labels)
    answers = ask(predictor, [row.texts for row in rows], batch_size or 32)
    probabilities = np.array([list(answer.probabilities.values()) for answer in answers], np.float32)  # (N, C)
    scores = score(truth, probabilities, labels)
    print(f"{test_file}: {len(rows):,} rows, accuracy {scores['accuracy']:.4f}, macro F1 {scores['macro_f1']:.4f}")
    common = np.bincount(truth).max() / len(truth)
    print(f"  always naming the commonest label would score {common:.4f}")
    width = max(map(len, [*labels, "label"]))
    print(f"  {'label':{width}}  rows    F1   answered")
    for index, name in enumerate(labels):
        confused = ", ".join(
            f"{labels[j]} {count}" for j, count in enumerate(scores["confusion"][index]) if count and len(labels) <= 20
        )
        print(f"  {name:{width}}  {int((truth == index).sum()):4}  {scores['f1'][name]:.3f}  {confused}")
    if output_file:
        write_json(output_file, scores)
    return scores


def score(truth: np.ndarray, probabilities: np.ndarray, labels: list[str]) -> dict:
    """Scores of an answer.

    Args:
        truth: int (N,).
        probabilities: float32 (N, C).

    Returns:
        accuracy, macro_f1, f1 by label, loss in nats, and confusion[true][answered].
    """
    f1 = keras.metrics.F1Score(average=None)
    f1.update_state(np.eye(len(labels), dtype=np.float32)[truth], probabilities)
    each = np.array(f1.result())
    confusion = np.zeros((len(labels), len(labels)), int)
    np.add.at(confusion, (truth, probabilities.argmax(axis=1)), 1)
    loss = keras.losses.sparse_categorical_crossentropy(truth, probabilities)
    return {
        "accuracy": float((probabilities.argmax(axis=1) == truth).mean()),
        "macro_f1": float(each.mean()),
        "f1": dict(zip(labels, each.tolist(), strict=True)),
        "loss": float(np.mean(loss)),
        "confusion": confusion.tolist(),
    }
