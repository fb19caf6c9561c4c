"""Pictures of answers: scores by length, and what the threshold decides."""

import numpy as np

from xmodels.tasks.answer_span.measures import SQUAD2, f1_by_difference, measure, rights
from xmodels.tasks.base.pictures import BLUE, RED, new_figure, write

LENGTHS = (2, 5, 10, 20, 40, 80)  # characters; bounds of the bars


def draw(folder: str, predictions, questions, metric: str, threshold: float | None) -> list[str]:
    """Writes the pictures into a folder; returns their paths.

    Args:
        predictions: of `spans.Found`.
    """
    figures = {"answers": by_length(predictions, questions, metric, threshold)}
    if metric == SQUAD2:
        figures["threshold"] = by_threshold(predictions, questions, threshold)
    return write(folder, figures)


def by_length(predictions, questions, metric: str, threshold: float | None):
    """Returns F1 and exact match of answers by the length of the right one."""
    rows = []
    for asked, each in zip(questions, predictions, strict=True):
        if truths := rights(asked):
            rows.append((min(map(len, truths)), *measure(metric, truths, each.answer_at(threshold).text)))
    table = np.array(rows or [(0, 0.0, 0.0)])
    groups = np.searchsorted(LENGTHS, table[:, 0])
    names = [f"≤ {bound}" for bound in LENGTHS] + [f"> {LENGTHS[-1]}"]
    there = sorted(set(groups.tolist()))
    figure, axis = new_figure(6.4, 3.2)
    for shift, column, colour, title in ((-0.2, 2, BLUE, "F1"), (0.2, 1, "#9db8ee", "exact match")):
        heights = [100 * table[groups == group, column].mean() for group in there]
        axis.bar(np.arange(len(there)) + shift, heights, 0.4, color=colour, label=title)
    axis.set_xticks(range(len(there)), [f"{names[group]}\n{int((groups == group).sum())}" for group in there])
    axis.set(title="scores by length of the true answer in characters, with counts", ylim=(0, 100), ylabel="%")
    axis.legend(frameon=False)
    return figure


def by_threshold(predictions, questions, threshold: float | None):
    """Returns how the difference of scores tells questions without an answer, and F1 by the threshold."""
    from matplotlib.figure import Figure

    differences = np.array([each.null_score_diff for each in predictions])
    finite = np.isfinite(differences)
    impossible = np.array([each.is_impossible for each in questions])
    rising, totals = f1_by_difference(predictions, questions)
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    bins = np.histogram_bin_edges(differences[finite], 40)
    upper.hist(differences[finite & ~impossible], bins, color=BLUE, alpha=0.7, label="with an answer")
    upper.hist(differences[finite & impossible], bins, color=RED, alpha=0.7, label="without")
    upper.set_title("score of no answer minus score of the best answer")
    upper.legend(frameon=False)
    there = np.isfinite(rising)
    lower.plot(rising[there], 100 * totals[1:][there] / len(rising), color=BLUE)
    lower.set(xlabel="null_score_diff_threshold", ylabel="F1, %")
    for axis in (upper, lower):
        if threshold is not None:
            axis.axvline(threshold, color="black", linewidth=0.8, linestyle="--")
        axis.spines[["top", "right"]].set_visible(False)
    return figure
