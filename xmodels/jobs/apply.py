"""What one does with a fine-tuned run: score it, ask it, export it."""

import csv
import os

import keras
import numpy as np
from tqdm import tqdm

from data_pipelines.corpora.tables import Columns, read_table
from data_pipelines.errors import DataError, UsageError
from data_pipelines.records import write_json
from xmodels.export import saved_model
from xmodels.export.predictor import Predictor
from xmodels.jobs.labelled import label_ids


def _ask(predictor: Predictor, texts, batch_size: int):
    with tqdm(total=len(texts), desc="texts", unit="text", disable=len(texts) < 200) as progress:
        return predictor.predict(texts, batch_size, progress.update)


def evaluate(
    model_dir: str, test_file: str, text_column: str | None, text_pair_column: str | None, label_column: str | None,
    batch_size: int, output_file: str | None,
) -> dict:  # fmt: skip
    """Prints and returns accuracy, F1 of each label and the confusion matrix; arguments as in `launch/evaluate.py`."""
    predictor = Predictor.load(model_dir)
    rows = read_table(test_file, Columns(text_column, text_pair_column, label_column))
    labels = list(predictor.labels)
    truth = label_ids(test_file, rows, labels)
    answers = _ask(predictor, [row.texts for row in rows], batch_size)
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


def predict(
    model_dir: str, text: str | None, text_pair: str | None, input_file: str | None, text_column: str | None,
    text_pair_column: str | None, output_file: str | None, overwrite: bool, batch_size: int,
) -> None:  # fmt: skip
    """Labels one text or a file; arguments as in `launch/predict.py`."""
    if (text is None) == (input_file is None):
        raise UsageError("Give either --text or --input_file.")
    if output_file and os.path.exists(output_file) and not overwrite:
        raise UsageError(f"--output_file={output_file}: exists. Choose another name or add --overwrite.")
    texts = _texts(text, text_pair, input_file, Columns(text_column, text_pair_column))
    predictor = Predictor.load(model_dir)
    answers = _ask(predictor, texts, batch_size)
    if text is not None:
        print(f"label: {answers[0].label}")
        for name, value in sorted(answers[0].probabilities.items(), key=lambda item: -item[1])[:10]:
            print(f"  {value:.4f}  {name}")
        return
    if output_file:
        with open(f"{output_file}.partial", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerow(["label", *predictor.labels])
            writer.writerows([a.label, *(f"{p:.6f}" for p in a.probabilities.values())] for a in answers)
        os.replace(f"{output_file}.partial", output_file)
        print(f"{output_file}: {len(answers):,} labels.")
        return
    for answer, given in zip(answers, texts, strict=True):
        print(f"{answer.label}\t{answer.probabilities[answer.label]:.4f}\t{' | '.join(given)}")


def _texts(text, text_pair, input_file, columns: Columns) -> list[tuple[str, ...]]:
    if text is not None:
        return [(text,) if text_pair is None else (text, text_pair)]
    if not input_file.endswith(".txt"):
        return [row.texts for row in read_table(input_file, columns, with_labels=False)]
    try:
        with open(input_file, encoding="utf-8-sig") as file:
            lines = [line.strip() for line in file]
    except FileNotFoundError:
        raise DataError(f"{input_file}: no such file.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{input_file}: not valid UTF-8 at byte {error.start}.") from None
    if not any(lines):
        raise DataError(f"{input_file}: holds no text.")
    return [(line,) for line in lines if line]


def export_model(model_dir: str, export_dir: str, serving_ops: str, overwrite: bool) -> None:
    """Exports a run; arguments as in `launch/export_model.py`."""
    done = saved_model.export(model_dir, export_dir, serving_ops, overwrite)
    print(f"{done.path}: SavedModel of raw strings ({serving_ops} ops); README.md there says how to serve it.")
    print(f"  largest difference from the run's own answers: {done.largest_difference:.2g}")
