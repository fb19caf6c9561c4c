"""Accuracy, F1 of each label, and confusions, as of texts."""

from xmodels.tasks.base.score import score_inputs
from xmodels.tasks.classify.score import draw, from_arrays, mistakes, report, scores
from xmodels.tasks.classify_sets.read import label_ids_of

__all__ = ("draw", "evaluate", "from_arrays", "mistakes", "report", "scores")
DRAWS_LAST, REPORTED = True, ("accuracy",)


def evaluate(
    predictor, test_file: str, points_column: str | None, label_column: str | None, batch_size: int | None, plots: str | None
) -> dict:  # fmt: skip
    """Prints and returns accuracy, F1 of each label and the confusion matrix; pictures go to the folder `plots`."""
    sets = predictor.read(test_file, points_column, label_column)
    label_ids_of(sets, predictor.labels)  # says which label is unknown
    points, truth = [each.points for each in sets], [each.label for each in sets]
    return score_inputs(predictor, test_file, points, truth, batch_size, plots)
