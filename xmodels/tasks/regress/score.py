"""Correlations of numbers, as GLUE scores STS-B (Wang et al., 2019), and their mean errors."""

import numpy as np

from xmodels.tasks.base.pictures import BLUE, new_figure, write
from xmodels.tasks.base.score import score_inputs
from xmodels.tasks.regress.read import read_numbers

SELECTION_METRIC = "spearman"
LISTED = 5  # rows that are farthest off


def evaluate(
    predictor, test_file: str, text_column: str | None, text_pair_column: str | None, label_column: str | None,
    batch_size: int | None, plots: str | None,
) -> dict:  # fmt: skip
    """Prints and returns the correlations; arguments as in `launch/evaluate.py`. With `plots`, a picture goes to that folder."""
    rows = read_numbers(test_file, predictor.columns_of(text_column, text_pair_column, label_column))
    texts, truth = [row.texts for row in rows], [row.number for row in rows]
    return score_inputs(predictor, test_file, texts, truth, batch_size, plots)


def scores(predictions: list[float], truth: list[float]) -> dict:
    """Returns pearson and spearman, each 0 where all numbers are equal; mean_squared_error and mean_absolute_error."""
    from scipy.stats import pearsonr, spearmanr

    found, right = np.asarray(predictions, np.float64), np.asarray(truth, np.float64)
    varied = len(found) > 1 and np.ptp(found) > 0 and np.ptp(right) > 0
    pearson, spearman = (float(each(found, right)[0]) if varied else 0.0 for each in (pearsonr, spearmanr))
    return {
        "pearson": pearson,
        "spearman": spearman,
        "mean_squared_error": float(np.mean((found - right) ** 2)),
        "mean_absolute_error": float(np.mean(np.abs(found - right))),
    }


def from_arrays(outputs, examples, labels) -> tuple[list[float], list[float]]:
    """Returns what `scores` takes, from outputs of the network and the examples of a fine-tuning."""
    return outputs["scores"].tolist(), examples["labels"].tolist()


def report(
    test_file: str, found: dict, inputs: list, predictions: list[float], truth: list[float], settings: dict
) -> None:
    """Prints the scores, and the rows that are farthest off."""
    right = np.array(truth)
    print(
        f"{test_file}: {len(truth):,} rows, Pearson {found['pearson']:.4f}, Spearman {found['spearman']:.4f}, "
        f"mean squared error {found['mean_squared_error']:.4f}"
    )
    print(f"  always predicting the mean would give a mean squared error of {right.var():.4f}")
    farthest = np.argsort(-np.abs(np.array(predictions) - right), kind="stable")[:LISTED]
    for row in farthest:
        print(f"  far off: predicted {predictions[row]:.3f}, true {truth[row]:.4g}: {' | '.join(inputs[row]):.100}")


def draw(folder: str, predictions: list[float], truth: list[float], settings: dict) -> list[str]:
    """Returns a point for each row: what is right, and what the network says."""
    figure, axis = new_figure(4.8, 4.8)
    axis.scatter(truth, predictions, s=8, color=BLUE, alpha=0.4, linewidths=0)
    ends = [min(*truth, *predictions), max(*truth, *predictions)]
    axis.plot(ends, ends, color="black", linewidth=0.8, linestyle="--")
    axis.set(xlabel="true", ylabel="predicted", title=f"Spearman {scores(predictions, truth)['spearman']:.3f}")
    return write(folder, {"numbers": figure})
