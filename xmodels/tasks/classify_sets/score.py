"""Accuracy, F1 of each label, and confusions, as of texts."""

from data_pipelines.errors import DataError
from xmodels.tasks.base.score import check_plots, predict
from xmodels.tasks.classify.score import draw, from_arrays, mistakes, report, scores

__all__ = ("draw", "evaluate", "from_arrays", "mistakes", "report", "scores")
DRAWS_LAST, REPORTED = True, ("accuracy",)


def evaluate(
    predictor, test_file: str, points_column: str | None, label_column: str | None, batch_size: int | None, plots: str | None
) -> dict:  # fmt: skip
    """Prints and returns accuracy, F1 of each label and the confusion matrix; pictures go to the folder `plots`."""
    check_plots(plots)
    sets = predictor.read(test_file, points_column, label_column)
    unknown = next((each for each in sets if each.label not in predictor.labels), None)
    if unknown is not None:
        known = ", ".join(predictor.labels[:20])
        raise DataError(f"{unknown.place}: label {unknown.label!r} does not occur in training. Known: {known}.")
    truth = [each.label for each in sets]
    predictions = predict(predictor, [each.points for each in sets], batch_size or 32, test_file)
    found = scores(predictions, truth)
    report(test_file, found, truth)
    for path in draw(plots, predictions, truth, {}) if plots else ():
        print(f"  picture: {path}")
    return found
