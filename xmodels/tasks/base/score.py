"""How good answers are. What `score.py` of a task does not define is as here: predictions are right or wrong.

`evaluate` names the flags that the task takes, as its arguments; the job gives it `predictor`, or `model_dir` where it names that.
"""

from tqdm.auto import tqdm

from xmodels.tasks.base.find import part

DECISIVE = "accuracy"  # the score that chooses the best epoch of a fine-tuning; higher is better


def evaluate(predictor, test_file: str, batch_size: int | None) -> dict:
    """Prints and returns the scores of a file; arguments as in `launch/evaluate.py`."""
    inputs, truth = predictor.labelled(test_file)
    predictions = predict(predictor, inputs, batch_size or 32)
    score = part(predictor.task.label, "score")
    found = score.scores(predictions, truth)
    score.report(test_file, found, inputs, predictions, truth)
    return found


def scores(predictions: list, truth: list) -> dict:
    """{name: value} of predictions, as `Predictor.predictions` gives them, beside what is right."""
    right = sum(prediction == answer for prediction, answer in zip(predictions, truth, strict=True))
    return {"accuracy": right / len(truth)}


def from_arrays(outputs: dict, examples: dict, labels: list[str]) -> tuple[list, list]:
    """What `scores` takes, from what `Task.predict` answers to the examples of a fine-tuning, all as arrays (N, ...).

    Only a task needs it whose `DECISIVE` score is no metric of its `Task.score`.
    """
    raise NotImplementedError


def report(test_file: str, found: dict, inputs: list, predictions: list, truth: list) -> None:
    """Prints the scores."""
    print(f"{test_file}: {len(truth):,} examples, " + ", ".join(f"{name} {value:.4f}" for name, value in found.items()))


def predict(predictor, inputs: list, batch_size: int) -> list:
    """The predictions of many inputs, with a bar of progress where it takes a while."""
    unit = predictor.unit
    with tqdm(total=len(inputs), desc=f"{unit}s", unit=unit, disable=len(inputs) < 200) as progress:
        return predictor.predict(inputs, batch_size, progress.update)
