"""Accuracy, layers and time at several speeds."""

import time

import numpy as np

from data_pipelines.corpora.tables import read_table
from data_pipelines.errors import UsageError
from data_pipelines.finetuning.row_checks import label_ids
from xmodels.tasks.base.score import predict
from xmodels.tasks.classify import score
from xmodels.tasks.fast_classify import pictures
from xmodels.tasks.fast_classify.answer import DEFAULT_SPEED, FULL, check_speed
from xmodels.tasks.fast_classify.costs import expected_speedup
from xmodels.tasks.fast_classify.exits import Exits

CHOSEN, SETTINGS = (), ()  # labels are the likeliest
DRAWS_LAST = False  # the evaluation has drawn already; the teacher's phase has no exits
CAN_SHARE = False  # seconds are measured
SPEEDS = "0,0.1,0.3,0.5,0.8"
REPORTED = ("teacher_accuracy", "accuracy", "mean_layers")  # of an evaluation: the latter two at `DEFAULT_SPEED`
WARM = 8  # batches of different lengths before the clock starts, and one that is not full


def evaluate(
    predictor, test_file: str, text_column: str | None, text_pair_column: str | None, label_column: str | None,
    batch_size: int | None, speed: str | None, exit_mode: str | None, plots: str | None,
) -> dict:  # fmt: skip
    """Prints and returns a row for each speed, and what `classify` scores at the first; arguments as in `launch/evaluate.py`.

    Time is that of `batch_size` texts after another through the network and the tokenizer, beside the network with the teacher alone.
    """
    speeds = parse(speed or (SPEEDS if predictor.distilled else "0"))
    for each in speeds:
        predictor.adjust(speed=each, exit_mode=exit_mode)
    rows = read_table(test_file, predictor.columns_of(text_column, text_pair_column, label_column))
    truth = label_ids(test_file, rows, list(predictor.labels))
    texts, names = [row.texts for row in rows], [row.label for row in rows]
    mode = predictor.exit_mode
    print(f"{test_file}: {len(rows):,} rows")
    full = timed(predictor, texts, batch_size or 32, FULL, 0.0)[1]
    print("  speed  accuracy  macro F1  layers  operations  seconds  times as fast as the teacher alone")
    print(f"   none                    {len(predictor.task.branches):6}      1.00x  {full:7.2f}  1.00")
    found: dict = {"rows": len(rows), "batch_size": batch_size or 32, "teacher_seconds": full, "speeds": []}
    for each in speeds:
        predictions, seconds = timed(predictor, texts, batch_size or 32, mode, each)
        scored = score.scores(predictions, names)
        row = row_of(predictor, predictions, scored, each, seconds, full)
        print(
            f"  {each:5g}  {row['accuracy']:8.4f}  {row['macro_f1']:8.4f}  {row['mean_layers']:6.2f}  "
            f"{row['expected_speedup']:9.2f}x  {seconds:7.2f}  {row['measured_speedup']:.2f}"
        )
        found["speeds"].append(row)
        if each == speeds[0]:
            found |= {name: scored[name] for name in ("accuracy", "macro_f1", "f1", "confusion", "loss")}
    majority = max(map(names.count, set(names))) / len(names)
    print(f"  always predicting the most frequent label would score {majority:.4f}")
    if plots and predictor.distilled:
        for path in draw(plots, Exits.of(predictor, texts, batch_size or 32), truth, {}):
            print(f"  {path}")
    return found


def parse(speeds: str) -> list[float]:
    """Returns the numbers of `0,0.1`. Raises a UsageError where one is none, or out of bounds."""
    try:
        found = [float(each) for each in speeds.split(",")]
    except ValueError:
        raise UsageError(
            f"--speed={speeds}: expected numbers from 0 to 1 with commas between, such as {SPEEDS}."
        ) from None
    for each in found:
        check_speed(each)
    return found


def timed(predictor, texts: list, batch_size: int, mode: str, speed: float) -> tuple[list, float]:
    """Predictions and seconds, without those of the first calls, in which the graph is made."""
    predictor.speed, predictor.exit_mode = speed, mode
    predictor.predict(texts[:: max(1, len(texts) // (WARM * batch_size))][: WARM * batch_size + 1], batch_size)
    started = time.perf_counter()
    found = predict(predictor, texts, batch_size)
    return found, time.perf_counter() - started


def row_of(predictor, predictions, scored: dict, speed: float, seconds: float, full: float) -> dict:
    """Returns what stands in a row of the table."""
    layers = np.array([each.layer for each in predictions])
    depth = len(predictor.task.branches)
    return {
        "speed": speed,
        "accuracy": scored["accuracy"],
        "macro_f1": scored["macro_f1"],
        "mean_layers": float(layers.mean()),
        "expected_speedup": expected_speedup(predictor.backbone.config, predictor.max_sequence_length, layers - 1),
        "seconds": seconds,
        "measured_speedup": full / seconds,
        "exits": np.bincount(layers, minlength=depth + 1)[1:].tolist(),
    }


# In a fine-tuning: what students and teacher say of the evaluation set.


def from_arrays(outputs, examples, labels):
    return Exits(outputs["exits"]), examples["labels"]


def scores(exits: Exits, truth) -> dict:
    """Returns `mean_exit_accuracy`, over all classifiers, as if each layer were left equally often; it chooses the epoch."""
    labels, layers = exits.at(DEFAULT_SPEED)
    each = exits.accuracies(truth)
    return {
        "mean_exit_accuracy": float(each.mean()),
        "teacher_accuracy": float(each[-1]),
        "accuracy": float((labels == truth).mean()),
        "mean_layers": float(layers.mean() + 1),
    }


def mistakes(outputs, examples, labels, settings):
    """Returns those at the default speed; of the first phase those of the teacher."""
    if "exits" in outputs:
        exits = Exits(outputs["exits"])
        found, layers = exits.at(DEFAULT_SPEED)
        outputs = {"label_ids": found, "probabilities": exits.probabilities[np.arange(len(layers)), layers]}
    return score.mistakes(outputs, examples, labels, settings)


def draw(folder, predictions, truth, settings):
    return pictures.draw(folder, predictions, truth)
