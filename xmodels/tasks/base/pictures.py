"""Figures that tasks share: confusion matrices, and precision, recall and F1 by threshold."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from data_pipelines.files import whole_file

BLUE, RED, GREY = "#1450c8", "#c83232", "#777777"
MOST = 12  # labels that are drawn, the most frequent ones
THRESHOLDS = np.linspace(0.0, 1.0, 101)
COLUMNS, PANEL = 3, (3.0, 2.3)  # panels in a row, and their size in inches
FONTS = (  # for Chinese, in addition to matplotlib's own; the installed ones are used
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Microsoft YaHei",
    "SimHei", "PingFang SC", "Hiragino Sans GB", "Arial Unicode MS",
)  # fmt: skip


def write(folder: str, figures: dict[str, Any]) -> list[str]:
    """Writes figures as NAME.png into a folder. Returns their paths."""
    with _style():
        os.makedirs(folder, exist_ok=True)
        paths = [os.path.join(folder, f"{name}.png") for name in figures]
        for path, figure in zip(paths, figures.values(), strict=True):
            save(figure, path)
    return paths


def save(figure, path: str) -> str:
    """Writes a figure as a PNG file that appears when it is whole. Returns its path."""
    with whole_file(path) as file:
        figure.savefig(file, dpi=110, format="png")
    return path


def new_figure(width: float, height: float):
    """Returns a figure with one plot, without a frame at its top and right, and its axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axis = figure.subplots()
    axis.spines[["top", "right"]].set_visible(False)
    return figure, axis


def draw_ranks(axis, ranks: Sequence[int], deepest: int) -> None:
    """Draws a bar for each rank, of how often it is there, and one for those behind the `deepest`."""
    counts = np.bincount(np.minimum(np.asarray(ranks, int), deepest + 1), minlength=deepest + 2)[1:]
    axis.bar(range(1, deepest + 2), counts, color=BLUE)
    axis.set_xticks(range(1, deepest + 2), [*map(str, range(1, deepest + 1)), f"> {deepest}"])


def fold_rare_labels(names: Sequence[str], table: np.ndarray, counts: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Reduces a confusion matrix (C, C) to the `MOST` labels with the largest `counts` (C,), and one row and column for all others.

    Returns:
        The names and the table; unchanged if there are at most `MOST` labels.
    """
    if len(names) <= MOST:
        return list(names), table
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST])
    place = np.full(len(names), len(kept))
    place[kept] = np.arange(len(kept))
    found = np.zeros((len(kept) + 1, len(kept) + 1), table.dtype)
    np.add.at(found, (place[:, None], place[None, :]), table)
    return [*(names[k] for k in kept), f"others ({len(names) - len(kept)})"], found


def confusions(names: Sequence[str], table: np.ndarray, title: str):
    """Draws a confusion matrix: rows are true labels, columns predictions. Cells show the count and its share of the row.

    Args:
        names: labels, from `shorten_names`.
        table: int (C, C).
        title: of the figure.
    """
    from matplotlib.figure import Figure

    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    with _style():
        side = 1.2 + 0.08 * max(map(len, names)) + 0.5 * max(2, len(names))
        figure = Figure(figsize=(side + 0.6, side), layout="constrained")
        axis = figure.subplots()
        axis.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        for row, column in zip(*np.nonzero(table), strict=True):
            colour = "white" if shares[row, column] > 0.6 else "black"
            text = f"{table[row, column]:,}\n{shares[row, column]:.0%}"
            axis.text(column, row, text, ha="center", va="center", color=colour, fontsize=6)
        axis.set_xticks(range(len(names)), names, rotation=90)
        axis.set_yticks(range(len(names)), names)
        axis.set(xlabel="predicted", ylabel="true", title=title)
    return figure


def by_threshold(panels: Sequence[tuple[str, np.ndarray, np.ndarray, float | None]]):
    """Draws precision, recall and F1 of predicting a label if its probability reaches a threshold, for all thresholds.

    Args:
        panels: for each panel a title, probabilities, whether the label is true (of the same shape), and the threshold in use,
            which is drawn as a line, or None.
    """
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    with _style():
        size = (max(4.2, PANEL[0] * columns), max(3.2, 0.5 + PANEL[1] * rows))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, (title, probabilities, right, threshold) in zip(axes, panels, strict=False):
            curves = measures(probabilities, right)
            for (name, values), colour in zip(curves.items(), (GREY, RED, BLUE), strict=True):
                axis.plot(THRESHOLDS, values, color=colour, label=name, linewidth=1.2)
            if threshold is not None:
                axis.axvline(threshold, color="black", linewidth=0.8, linestyle="--")
            axis.set(xlim=(0, 1), ylim=(0, 1.02), title=title)
            axis.spines[["top", "right"]].set_visible(False)
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        axes[0].legend(frameon=False, fontsize=7)
        figure.supxlabel("threshold", fontsize=8)
    return figure


def measures(probabilities: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    """Returns precision, recall and F1 at each of `THRESHOLDS`; NaN where they are undefined."""
    probabilities, right = np.ravel(probabilities), np.ravel(right).astype(bool)
    every, hits = np.sort(probabilities), np.sort(probabilities[right])
    named = len(every) - np.searchsorted(every, THRESHOLDS)  # those that reach the threshold
    found = len(hits) - np.searchsorted(hits, THRESHOLDS)
    with np.errstate(invalid="ignore"):
        return {"precision": found / named, "recall": found / len(hits) if len(hits) else found * np.nan,
                "F1": 2 * found / (named + len(hits))}  # fmt: skip


def shorten_names(names: Sequence[str]) -> list[str]:
    """Returns labels, truncated, as the installed fonts can draw them; others are replaced with their id, such as `[3]`."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    known: set[int] = set()
    for family in _families():
        known.update(get_font(findfont(FontProperties(family=family))).get_charmap())
    return [
        f"{name:.24}" if all(ord(letter) in known for letter in f"{name:.24}") else f"[{number}]"
        for number, name in enumerate(names)
    ]


def _families() -> list[str]:
    from matplotlib.font_manager import fontManager

    there = set(fontManager.get_font_names())
    return ["DejaVu Sans", *(name for name in FONTS if name in there)]


def _style():
    """Returns a context with the style of the figures; in it `$` in a label does not start a formula."""
    from matplotlib import rc_context

    return rc_context({"text.parse_math": False, "font.size": 8, "font.family": _families()})
