"""Correlations of numbers and their mean errors, as of texts."""

from data_pipelines.errors import DataError
from xmodels.tasks.base.score import check_plots, predict
from xmodels.tasks.regress.read import as_number
from xmodels.tasks.regress.score import SELECTION_METRIC, draw, from_arrays, scores

__all__ = ("SELECTION_METRIC", "draw", "evaluate", "from_arrays", "report", "scores")


def evaluate(
    predictor, test_file: str, points_column: str | None, label_column: str | None, batch_size: int | None, plots: str | None
) -> dict:  # fmt: skip
    """Prints and returns correlations and mean errors; a picture goes to the folder `plots`."""
    check_plots(plots)
    sets = predictor.read(test_file, points_column, label_column)
    truth = [as_number(each.label) for each in sets]
    if None in truth:
        each = sets[truth.index(None)]
        raise DataError(f"{each.place}: no number: {each.label!r:.40}. Is --label_column the right field?")
    predictions = predict(predictor, [each.points for each in sets], batch_size or 32, test_file)
    found = scores(predictions, truth)
    report(test_file, found, truth)
    for path in draw(plots, predictions, truth, {}) if plots else ():
        print(f"  picture: {path}")
    return found


def report(test_file: str, found: dict, truth: list[float]) -> None:
    """Prints the scores."""
    mean = sum(truth) / len(truth)
    variance = sum((each - mean) ** 2 for each in truth) / len(truth)
    print(
        f"{test_file}: {len(truth):,} sets, Pearson {found['pearson']:.4f}, Spearman {found['spearman']:.4f}, mean squared error "
        f"{found['mean_squared_error']:.4f}, mean absolute error {found['mean_absolute_error']:.4f}"
    )
    print(f"  always predicting the mean would give a mean squared error of {variance:.4f}")
