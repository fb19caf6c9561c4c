"""Correlations of numbers and their mean errors, as of texts."""

from xmodels.tasks.base.score import score_inputs
from xmodels.tasks.regress.score import SELECTION_METRIC, draw, from_arrays, scores
from xmodels.tasks.regress_sets.read import numbers_of

__all__ = ("SELECTION_METRIC", "draw", "evaluate", "from_arrays", "report", "scores")


def evaluate(
    predictor, test_file: str, points_column: str | None, label_column: str | None, batch_size: int | None, plots: str | None
) -> dict:  # fmt: skip
    """Prints and returns correlations and mean errors; a picture goes to the folder `plots`."""
    sets = predictor.read(test_file, points_column, label_column)
    return score_inputs(predictor, test_file, [each.points for each in sets], numbers_of(sets), batch_size, plots)


def report(test_file: str, found: dict, inputs: list, predictions: list, truth: list[float], settings: dict) -> None:
    """Prints the scores."""
    mean = sum(truth) / len(truth)
    variance = sum((each - mean) ** 2 for each in truth) / len(truth)
    print(
        f"{test_file}: {len(truth):,} sets, Pearson {found['pearson']:.4f}, Spearman {found['spearman']:.4f}, mean squared error "
        f"{found['mean_squared_error']:.4f}, mean absolute error {found['mean_absolute_error']:.4f}"
    )
    print(f"  always predicting the mean would give a mean squared error of {variance:.4f}")
