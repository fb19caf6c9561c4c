"""How good answers are. What `score.py` of a task does not define is as here: predictions are right or wrong.

`evaluate` names the flags that the task takes, as its arguments; the job gives it `predictor`, or `model_dir` where it names that.
"""

import dataclasses
import os

from tqdm.auto import tqdm

from data_pipelines.errors import UsageError
from xmodels.tasks.base.find import part

DECISIVE = "accuracy"  # the score that chooses the best epoch of a fine-tuning; higher is better
REPORTED: tuple[str, ...] = ()  # further scores that stand in the log of a fine-tuning and in its results
CHOSEN: tuple[
    str, ...
] = ()  # settings of the run that the evaluation set chooses, by `chosen`; arguments of `scores` too
SETTINGS: tuple[str, ...] = ()  # further settings of the run that `chosen` and `scores` take, where the task has them
READS_SOURCE = False  # whether `from_source` takes the place of `from_arrays`
DRAWS_LAST = False  # whether `draw` waits for the weights that are handed over, whose answers `from_arrays` gives it


@dataclasses.dataclass(frozen=True)
class Mistake:
    """An answer that is wrong, for the report.

    A task that has such defines `mistakes(outputs, examples, labels, settings)`: from the arrays of `from_arrays` and the settings of
    the run to all of them.

    Attributes:
        row: of the examples.
        truth, answer: what is right, and what was answered.
        probability: of the answer.
    """

    row: int
    truth: str
    answer: str
    probability: float


def evaluate(predictor, test_file: str, batch_size: int | None, plots: str | None) -> dict:
    """Prints and returns the scores of a file; arguments as in `launch/evaluate.py`. With `plots`, pictures go to that folder."""
    check_plots(plots)
    inputs, truth = predictor.labelled(test_file)
    predictions = predict(predictor, inputs, batch_size or 32)
    score = part(predictor.task.label, "score")
    found = score.scores(predictions, truth)
    score.report(test_file, found, inputs, predictions, truth)
    for path in score.draw(plots, predictions, truth, {}) if plots else ():
        print(f"  picture: {path}")
    return found


def scores(predictions: list, truth: list) -> dict:
    """{name: value} of predictions, as `Predictor.predictions` gives them, beside what is right."""
    right = sum(prediction == answer for prediction, answer in zip(predictions, truth, strict=True))
    return {"accuracy": right / len(truth)}


def from_arrays(outputs: dict, examples: dict, labels: list[str]) -> tuple[list, list]:
    """What `scores` takes, from what `Task.predict` answers to the examples of a fine-tuning, all as arrays (N, ...).

    Only a task needs it whose `DECISIVE` score is no metric of its `Task.score`, or that has `DRAWS_LAST`.
    """
    raise NotImplementedError


def from_source(outputs: dict, source, task) -> tuple[list, list]:
    """As `from_arrays`, for tasks that need of a set more than its arrays.

    Args:
        source: the set, an `ArraySource`; its rows are those of the outputs.
    """
    raise NotImplementedError


def chosen(predictions: list, truth: list, metric: str) -> dict:
    """The values of `CHOSEN`, such as a threshold, that suit an evaluation set.

    Args:
        metric: the score that chooses the epoch, of `scores`.
    """
    return {}


def draw(folder: str, predictions: list, truth: list, settings: dict) -> list[str]:
    """Writes pictures of the answers to an evaluation set into a folder, for the report of the run; returns their paths.

    Args:
        settings: the values of `CHOSEN`, and with `DRAWS_LAST` also `labels`, in the order of their ids.
    """
    return []


def report(test_file: str, found: dict, inputs: list, predictions: list, truth: list) -> None:
    """Prints the scores."""
    print(f"{test_file}: {len(truth):,} examples, " + ", ".join(f"{name} {value:.4f}" for name, value in found.items()))


def predict(predictor, inputs: list, batch_size: int) -> list:
    """The predictions of many inputs, with a bar of progress where it takes a while."""
    unit = predictor.unit
    with tqdm(total=len(inputs), desc=f"{unit}s", unit=unit, disable=len(inputs) < 200) as progress:
        return predictor.predict(inputs, batch_size, progress.update)


def check_plots(folder: str | None) -> None:
    """Raises a UsageError where `--plots` cannot be a folder."""
    if folder and os.path.isfile(folder):
        raise UsageError(f"--plots={folder}: is a file. Name a folder for the pictures.")
