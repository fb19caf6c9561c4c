"""How well cosines tell which texts belong together, by what a file says of them: labels, scores, or that its pairs match."""

import dataclasses

import numpy as np

from data_pipelines.corpora.headers import Columns
from data_pipelines.errors import DataError
from xmodels.tasks.base.pictures import BLUE, draw_ranks, new_figure, write
from xmodels.tasks.base.score import predict, print_pictures
from xmodels.tasks.classify.score import scores as label_scores
from xmodels.tasks.regress.read import as_number
from xmodels.tasks.regress.score import scores as correlations
from xmodels.tasks.siamese.answer import Prediction
from xmodels.tasks.siamese.measures import best_threshold, match_scores, rank_scores, ranks, triplet_accuracy
from xmodels.tasks.siamese.read import read_rows
from xmodels.tasks.siamese.settings import LABEL, MATCH, POSITIVE, SCORE

CHOSEN, READS_SOURCE, REPORTED = ("threshold",), True, ("accuracy", "recall_1")
ORANGE = "#d2691e"
BINS = 40


@dataclasses.dataclass(frozen=True)
class Truth:
    """What is right of a set.

    Attributes:
        rows: LABEL, SCORE, MATCH or POSITIVE.
        values: names of labels, scores, or 0 and 1; of POSITIVE the texts of each row, or what tells texts apart.
    """

    rows: str
    values: list

    def __len__(self):
        return len(self.values)


def evaluate(
    predictor, test_file: str, text_column: str | None, text_pair_column: str | None, label_column: str | None,
    negative_column: str | None, batch_size: int | None, plots: str | None,
) -> dict:  # fmt: skip
    """Prints and returns the scores that suit the file; arguments as in `launch/evaluate.py`. With `plots`, pictures go there."""
    columns = predictor.columns_of(text_column, text_pair_column, label_column)
    if negative_column:
        columns = Columns(columns.text, columns.text_pair)
    examples = read_rows(test_file, columns, negative_column)
    truth = truth_of(test_file, [each.label for each in examples], [each.texts for each in examples], predictor.labels)
    threshold = predictor.settings.threshold
    if truth.rows == POSITIVE:
        texts = list(dict.fromkeys(text for row in truth.values for text in row))
        vectors = dict(
            zip(texts, predict(predictor, [(text,) for text in texts], batch_size or 32, test_file), strict=True)
        )
        predictions = np.array([[vectors[text] for text in row] for row in truth.values])
    else:
        predictions = predict(predictor, [each.texts for each in examples], batch_size or 32, test_file)
        if truth.rows != LABEL:
            predictions = [each.similarity for each in predictions]
    found = scores(predictions, truth, threshold)
    report(test_file, found, truth, threshold)
    print_pictures(draw(plots, predictions, truth, {"threshold": threshold}) if plots else ())
    return found


def truth_of(path: str, labels: list, texts: list[tuple], names: tuple[str, ...]) -> Truth:
    """Returns what the labels of a file say: names that the classifier knows, 1 and 0, other numbers, or nothing."""
    if labels[0] is None:
        return Truth(POSITIVE, texts)
    if names and set(labels) <= set(names):
        return Truth(LABEL, labels)
    numbers = [as_number(label) for label in labels]
    if None in numbers:
        known = f" nor one of {', '.join(names[:20])}" if names else ""
        raise DataError(
            f"{path}: the label {labels[numbers.index(None)]!r:.40} is no number{known}. Is --label_column right?"
        )
    return Truth(MATCH if set(numbers) <= {0.0, 1.0} else SCORE, numbers)


def scores(predictions, truth: Truth, threshold: float | None = None) -> dict:
    """Returns the scores of a set, which its `rows` decide.

    Args:
        predictions: of LABEL, `Prediction`s; of SCORE and MATCH cosines; of POSITIVE vectors (N, S, D).
        threshold: of MATCH; None chooses the best one for this set.
    """
    if truth.rows == LABEL:
        return label_scores(predictions, truth.values)
    if truth.rows == SCORE:
        found = correlations(predictions, truth.values)
        return {name: found[name] for name in ("pearson", "spearman")}
    if truth.rows == MATCH:
        return match_scores(predictions, truth.values, threshold)
    found = rank_scores(*ranks(predictions, truth.values))
    return found | ({"triplet_accuracy": triplet_accuracy(predictions)} if predictions.shape[1] > 2 else {})


def from_source(outputs, source, task) -> tuple:
    """Returns what `scores` takes, from outputs of the network for all rows of a set."""
    arrays, rows = source.arrays, task.loss.rows
    if rows == POSITIVE:
        ids, real = arrays["token_ids"], arrays["padding_mask"]
        texts = [tuple(i[r].tobytes() for i, r in zip(*row, strict=True)) for row in zip(ids, real, strict=True)]
        return outputs["vectors"], Truth(rows, texts)
    if rows == LABEL:
        named = [
            Prediction(0.0, None, dict(zip(task.label_names, row, strict=True)))
            for row in outputs["probabilities"].tolist()
        ]
        return named, Truth(rows, [task.label_names[index] for index in arrays["labels"].tolist()])
    return outputs["scores"].tolist(), Truth(rows, arrays["labels"].tolist())


def chosen(predictions, truth: Truth, metric: str) -> dict:
    return {"threshold": best_threshold(predictions, truth.values) if truth.rows == MATCH else None}


def report(test_file: str, found: dict, truth: Truth, threshold: float | None) -> None:
    """Prints the scores, and what they are of."""
    kinds = {
        LABEL: "labels, by the classifier", SCORE: "scores, by cosine", MATCH: "labels 1 and 0, by cosine",
        POSITIVE: "matching texts, by cosine",
    }  # fmt: skip
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in found.items() if isinstance(value, float | int))
    print(f"{test_file}: {len(truth):,} rows with {kinds[truth.rows]}\n  {numbers}")
    if truth.rows == MATCH:
        share = max(np.mean(truth.values), 1 - np.mean(truth.values))
        where = (
            "on this file itself, so the scores are too optimistic"
            if threshold is None
            else "in training, on the evaluation file"
        )
        print(f"  the threshold was chosen {where}; always predicting the more frequent label would score {share:.4f}")


def draw(folder: str, predictions, truth: Truth, settings: dict) -> list[str]:
    """Cosines of pairs that match and of those that do not; against scores; or the ranks of right texts. None of labels."""
    if truth.rows == LABEL:
        return []
    figure, axis = new_figure(5.6, 3.6)
    if truth.rows == SCORE:
        axis.scatter(truth.values, predictions, s=8, color=BLUE, alpha=0.4, linewidths=0)
        axis.set(xlabel="score", ylabel="cosine", title=f"Spearman {scores(predictions, truth)['spearman']:.3f}")
    elif truth.rows == MATCH:
        similarities, matches = np.asarray(predictions), np.asarray(truth.values) > 0.5
        edges = np.linspace(min(similarities.min(), 0.0), 1.0, BINS + 1)
        axis.hist(similarities[~matches], edges, color=ORANGE, alpha=0.6, label="no match")
        axis.hist(similarities[matches], edges, color=BLUE, alpha=0.6, label="match")
        if settings["threshold"] is not None:
            axis.axvline(settings["threshold"], color="black", linewidth=0.8, linestyle="--")
        axis.set(xlabel="cosine", ylabel="pairs")
        axis.legend(frameon=False)
    else:
        draw_ranks(axis, ranks(predictions, truth.values)[0], 10)
        axis.set(xlabel="rank of the correct text", ylabel="rows")
    return write(folder, {"similarities": figure})
