"""Exact match and F1 of answers, and the threshold below which there is an answer."""

import dataclasses

import numpy as np

from data_pipelines.corpora.squad import Question
from xmodels.tasks.answer_span import pictures
from xmodels.tasks.answer_span.measures import SQUAD2, f1_by_difference, measure, metric_of, rights
from xmodels.tasks.answer_span.read import SpanSource, read_questions, warn_problems
from xmodels.tasks.answer_span.spans import Found, find, of_row
from xmodels.tasks.answer_span.windows import Settings
from xmodels.tasks.base.score import predict, print_pictures

SELECTION_METRIC, CHOSEN, READS_SOURCE = "f1", ("null_score_diff_threshold",), True
PER_TOKEN = "start_logits"  # an output whose width is that of the rows
LISTED = 5  # questions that were answered wrongly


def evaluate(predictor, test_file: str, answer_metric: str | None, batch_size: int | None, plots: str | None) -> dict:
    """Prints and returns exact match and F1, as the official script of the data set has them; arguments as in
    `launch/evaluate.py`.

    With `plots`, pictures go to that folder.
    """
    questions = read_questions(test_file)
    warn_problems(test_file, questions)
    found = predict(predictor, questions, batch_size or 32, test_file)
    threshold = predictor.settings.null_score_diff_threshold
    result = scores(found, questions, threshold, answer_metric)
    if result["metric"] == SQUAD2:
        result["best_f1"], result["best_f1_threshold"] = best_threshold(found, questions)
    report(test_file, result, found, questions)
    print_pictures(pictures.draw(plots, found, questions, result["metric"], threshold) if plots else ())
    return result


def scores(
    predictions: list[Found], truth: list[Question], null_score_diff_threshold: float | None = None,
    answer_metric: str | None = None,
) -> dict:  # fmt: skip
    """Returns exact_match and f1 in percent, and of SQuAD 2.0 also of the questions with an answer, and of those without.

    Args:
        null_score_diff_threshold: there is no answer above it; None where every question has one.
        answer_metric: of `measures.MEASURES`; None takes that of the data.
    """
    metric = answer_metric or metric_of(truth)
    found = [each.answer_at(null_score_diff_threshold).text for each in predictions]
    table = np.array([measure(metric, rights(asked), text) for asked, text in zip(truth, found, strict=True)])  # (N, 2)
    result = {"metric": metric, "exact_match": 100 * float(table[:, 0].mean()), "f1": 100 * float(table[:, 1].mean())}
    has_answer = np.array([bool(rights(asked)) for asked in truth])
    if metric == SQUAD2:
        for name, rows in (("has_answer", has_answer), ("no_answer", ~has_answer)):
            if rows.any():
                result |= {
                    f"{name}_exact_match": 100 * float(table[rows, 0].mean()),
                    f"{name}_f1": 100 * float(table[rows, 1].mean()),
                }
    return result | {"questions": len(truth), "null_score_diff_threshold": null_score_diff_threshold}


def best_threshold(predictions: list[Found], truth: list[Question]) -> tuple[float, float]:
    """Returns the highest F1 of SQuAD 2.0 in percent, and the `null_score_diff_threshold` that gives it (`find_best_thresh` of
    the official script, of all questions with equal differences together)."""
    differences, totals = f1_by_difference(predictions, truth)
    # Behind the last of equal differences only can a threshold lie.
    ends = np.concatenate([[True], np.append(differences[1:] != differences[:-1], True)])
    best = int(np.argmax(np.where(ends, totals, -np.inf)))
    return 100 * float(totals[best]) / len(truth), between(differences, best)


def between(differences: np.ndarray, place: int) -> float:
    """Returns a number above the first `place` of these sorted ones and below the others: halfway, so that rounding moves no
    answer."""
    finite = differences[np.isfinite(differences)]
    if not len(finite):
        return 0.0
    if place == 0:
        return float(finite[0]) - 1.0
    if place >= len(finite):
        return float(finite[-1]) + 1.0
    return float(finite[place - 1] + finite[place]) / 2


def from_source(outputs: dict[str, np.ndarray], source: SpanSource, task) -> tuple[list[Found], list[Question]]:
    """Returns what `scores` takes, from outputs of the network for all windows of a set."""
    return answered(outputs, source, task, Settings(**task.settings), of_row), source.questions


def answered(outputs: dict[str, np.ndarray], source: SpanSource, task, settings: Settings, of_row) -> list[Found]:
    """Returns the answers to all questions of a set.

    Args:
        of_row: as `spans.of_row`.
    """
    frame, row = task.reading.frame, 0
    if any(each.is_impossible for each in source.questions):
        settings = dataclasses.replace(settings, null_score_diff_threshold=0.0)  # so that n-best lists name it
    found = []
    for question, windows in zip(source.questions, source.windows, strict=True):
        made = []
        for window in windows:
            real = source.arrays["padding_mask"][row]
            width = outputs[PER_TOKEN].shape[1] if PER_TOKEN in outputs else len(real)
            real = (real[-width:] if frame.pads_left else real[:width]) if width < len(real) else real
            made.append(of_row({name: x[row] for name, x in outputs.items()}, real, window, frame, settings))
            row += 1
        found.append(find(question.context, made, settings))
    return found


def chosen(predictions: list[Found], truth: list[Question], metric: str) -> dict:
    """Returns the threshold with the best F1, where some questions have no answer."""
    if metric_of(truth) != SQUAD2:
        return {"null_score_diff_threshold": None}
    return {"null_score_diff_threshold": best_threshold(predictions, truth)[1]}


def draw(folder, predictions, truth, settings):
    return pictures.draw(folder, predictions, truth, metric_of(truth), settings["null_score_diff_threshold"])


def report(test_file: str, result: dict, predictions: list[Found], truth: list[Question]) -> None:
    """Prints the scores, and some questions that were answered wrongly."""
    print(
        f"{test_file}: {len(truth):,} questions, exact match {result['exact_match']:.2f} %, F1 {result['f1']:.2f} % "
        f"(as {result['metric']} counts)"
    )
    for name, title in (("has_answer", "with an answer"), ("no_answer", "without an answer")):
        if f"{name}_f1" in result:
            print(f"  {title}: exact match {result[f'{name}_exact_match']:.2f} %, F1 {result[f'{name}_f1']:.2f} %")
    threshold = result["null_score_diff_threshold"]
    if "best_f1" in result:
        setting = "the run always answers" if threshold is None else f"threshold of the run {threshold:.4g}"
        print(
            f"  {setting}; the best one for this file, {result['best_f1_threshold']:.4g}, would give F1 {result['best_f1']:.2f} %"
        )
    rows = [(asked, each.answer_at(threshold)) for asked, each in zip(truth, predictions, strict=True)]
    wrong = [row for row in rows if measure(result["metric"], rights(row[0]), row[1].text)[0] == 0.0]
    for asked, each in wrong[:LISTED]:
        right = rights(asked)[0] if rights(asked) else "no answer"
        print(f"  wrong: {asked.question:.60}  answered {each.text or 'no answer'!r:.40}, correct is {right!r:.40}")
