"""Scores a file in shares: each task predicts a part of its inputs, and who ends last scores the predictions of all."""

from collections.abc import Callable, Sequence
from typing import Any

from data_pipelines.errors import DataError, UsageError
from data_pipelines.files import write_json
from xmodels.jobs.evaluate.part_files import read_predictions, write_predictions
from xmodels.jobs.shares import Share
from xmodels.tasks.base import find
from xmodels.tasks.base.answer import Predictor

Predict = Callable[[Sequence], list]


class PartIsWritten(Exception):
    """Ends an evaluation whose predictions are only a part."""


def check_task(task: str) -> None:
    """Raises a UsageError for a task whose score one process must find."""
    if not find.load_part(task, "score").CAN_SHARE:
        raise UsageError(
            f"--num_tasks: --task={task} is scored by one process. Leave --num_tasks and --task_index out."
        )


def evaluate_share(share: Share, predictor: Predictor, score: Callable[[], dict]) -> dict:
    """Predicts the part of a task, and scores all of them where the others are there. Returns the scores; else {}.

    Args:
        score: predicts the inputs of the file by `tasks.base.score.predict`, once, and scores them. The scores become the output.
    """
    found: dict[str, Any] = {}

    def make(path: str) -> None:
        def write_part(predict: Predict, inputs: Sequence) -> list:
            write_predictions(path, predict(inputs[share.rows(len(inputs))]))
            raise PartIsWritten

        predictor.share = write_part
        try:
            score()
        except PartIsWritten:
            return
        finally:
            predictor.share = None
        raise UsageError("--num_tasks: the scores of this task ask no network about inputs. Leave the flag out.")

    def join(paths: Sequence[str]) -> None:
        def read_parts(predict: Predict, inputs: Sequence) -> list:
            predictions = [each for path in paths for each in read_predictions(path)]
            if len(predictions) != len(inputs):
                raise DataError(
                    f"{share.folder}: holds {len(predictions):,} predictions, --{share.source} has {len(inputs):,} inputs. "
                    "Remove the folder, and begin all tasks anew."
                )
            return predictions

        predictor.share = read_parts
        try:
            found.update(score())
        finally:
            predictor.share = None
        write_json(share.output, found)

    share.work(make, join)
    return found
