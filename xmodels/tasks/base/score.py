"""Scores predictions. These are the defaults for what `score.py` of a task does not define: the accuracy of predictions.

The arguments of `evaluate` are the flags that the task takes; the job also passes `predictor`, or `model_dir` if it has that
argument.
"""

import dataclasses
import os
import sys
from collections.abc import Iterable, Sequence

from tqdm.auto import tqdm

from data_pipelines.errors import UsageError
from data_pipelines.text import cuts
from xmodels.tasks.base.find import load_part

SELECTION_METRIC = "accuracy"  # the score that chooses the best epoch of a fine-tuning; higher is better
REPORTED: tuple[str, ...] = ()  # further scores in the log of a fine-tuning and in its results
CHOSEN: tuple[
    str, ...
] = ()  # settings of the run that `chosen` chooses on the evaluation set; also arguments of `scores`
SETTINGS: tuple[str, ...] = ()  # further settings of the run that `chosen` and `scores` take, if the task has them
READS_SOURCE = False  # whether `from_source` is used instead of `from_arrays`
CAN_SHARE = True  # whether tasks may each predict a part of a file whose scores are found from all predictions
DRAWS_LAST = False  # whether `draw` is called only for the final weights, with the result of `from_arrays`


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A wrong prediction, for the report.

    A task that reports them defines `mistakes(outputs, examples, labels, settings)`, which returns all of them, given the
    arguments of `from_arrays` and the settings of the run.

    Attributes:
        row: its index among the examples.
        truth, answer: the true answer and the prediction.
        probability: of the prediction.
    """

    row: int
    truth: str
    answer: str
    probability: float


def evaluate(predictor, test_file: str, batch_size: int | None, plots: str | None) -> dict:
    """Prints and returns the scores of a file. Arguments as in `launch/evaluate.py`; figures are written to the folder `plots`."""
    return score_inputs(predictor, test_file, *predictor.read_labelled(test_file), batch_size, plots)


def score_inputs(
    predictor, test_file: str, inputs: list, truth: list, batch_size: int | None, plots: str | None,
    settings: dict | None = None,
) -> dict:  # fmt: skip
    """Predicts inputs, prints and returns the scores of the predictions, and writes figures of them.

    Args:
        inputs, truth: what `test_file` holds.
        plots: a folder; None for no figures.
        settings: of the run. `scores` gets those of `CHOSEN` and `SETTINGS`, `draw` and `report` all.
    """
    score, settings = load_part(predictor.task.label, "score"), settings or {}
    predictions = score.for_scores(predict(predictor, inputs, batch_size or 32, test_file))
    taken = {name: settings[name] for name in (*score.CHOSEN, *score.SETTINGS) if name in settings}
    found = score.scores(predictions, truth, **taken)
    score.report(test_file, found, inputs, predictions, truth, settings)
    print_pictures(score.draw(plots, predictions, truth, settings) if plots else ())
    return found


def print_pictures(paths: Iterable[str]) -> None:
    """Prints where figures are."""
    for path in paths:
        print(f"  picture: {path}")


def for_scores(predictions: list):
    """Returns predictions, as `Predictor.predict` returns them, in the form that `scores`, `report` and `draw` take."""
    return predictions


def scores(predictions: list, truth: list) -> dict:
    """Returns {name of the score: value} of predictions, as `for_scores` returns them, given the true answers."""
    right = sum(prediction == answer for prediction, answer in zip(predictions, truth, strict=True))
    return {"accuracy": right / len(truth)}


def from_arrays(outputs: dict, examples: dict, labels: list[str]) -> tuple[list, list]:
    """Returns predictions and true answers as `scores` takes them, given the outputs of `Task.predict`, as arrays (N, ...).

    Needed only by tasks whose `SELECTION_METRIC` score is no metric of `Task.score`, or that set `DRAWS_LAST`.
    """
    raise NotImplementedError


def from_source(outputs: dict, source, task) -> tuple[list, list]:
    """Works as `from_arrays`, for tasks that need more of a set than its arrays.

    Args:
        outputs: of `Task.predict`.
        source: the set, an `ArraySource` with the same rows as the outputs.
        task: the task.
    """
    raise NotImplementedError


def chosen(predictions: list, truth: list, metric: str) -> dict:
    """Returns the best values of `CHOSEN`, such as a threshold, on an evaluation set.

    Args:
        metric: the score of `scores` that chooses the epoch.
    """
    return {}


def draw(folder: str, predictions: list, truth: list, settings: dict) -> list[str]:
    """Writes figures of the predictions for an evaluation set into a folder, for the report of the run. Returns their paths.

    Args:
        settings: the values of `CHOSEN`; with `DRAWS_LAST` also `labels`, in the order of their ids.
    """
    return []


def report(test_file: str, found: dict, inputs: list, predictions: list, truth: list, settings: dict) -> None:
    """Prints the scores."""
    print(f"{test_file}: {len(truth):,} examples, " + ", ".join(f"{name} {value:.4f}" for name, value in found.items()))


def predict(predictor, inputs: list, batch_size: int, source: str | None = None) -> list:
    """Returns the predictions of many inputs, with a progress bar from 200 inputs on; says how many were cut.

    Args:
        source: the file of the inputs, or the flag that gave them; None says nothing of cuts.
    """
    unit = predictor.unit

    def predict_here(inputs: Sequence) -> list:
        with (
            cuts.count_cuts() as found,
            tqdm(total=len(inputs), desc=f"{unit}s", unit=unit, disable=len(inputs) < 200) as progress,
        ):
            predictions = predictor.predict(inputs, batch_size, progress.update)
        if source:
            print_cuts(source, found, predictor)
        return predictions

    return predict_here(inputs) if predictor.share is None else predictor.share(predict_here, inputs)


def print_cuts(source: str, found: cuts.Cuts, predictor) -> None:
    """Prints to the standard error how many inputs of a file were cut."""
    if message := found.message(source, f"the {predictor.max_sequence_length} tokens that this run reads"):
        print(message, file=sys.stderr)


def check_plots(folder: str | None) -> None:
    """Raises a UsageError if `--plots` cannot be a folder."""
    if folder and os.path.isfile(folder):
        raise UsageError(f"--plots={folder}: is a file. Name a folder for the pictures.")
