"""Pictures of a tagger's answers: F1 of each type, and which type words are taken for."""

import collections
import os

import numpy as np

from xmodels.tasks.base.pictures import save
from xmodels.tasks.tag.settings import OUTSIDE, are_spans

BLUE, LIGHT = "#1450c8", "#9db8ee"
MOST = 25  # types that are drawn, the commonest ones


def draw(folder: str, predictions: list[list[str]], truth: list[list[str]], found: dict) -> list[str]:
    """Writes the pictures into a folder; returns their paths.

    Args:
        found: as `score.scores` returns it.
    """
    os.makedirs(folder, exist_ok=True)
    paths = []
    for name, figure in (("types", by_type(found["types"])), ("confusions", confusions(predictions, truth))):
        paths.append(save(figure, os.path.join(folder, f"{name}.png")))
    return paths


def by_type(types: dict[str, dict]):
    """Bars of F1, with precision and recall as marks."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = sorted(types, key=lambda kind: -types[kind]["entities"])[:MOST]
    with rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(6.4, 1.2 + 0.3 * max(1, len(names))), layout="constrained")
        axis = figure.subplots()
        axis.barh(range(len(names)), [types[kind]["f1"] for kind in names], color=LIGHT, label="F1")
        for measure, mark in (("precision", "|"), ("recall", "x")):
            axis.plot(
                [types[kind][measure] for kind in names],
                range(len(names)),
                mark,
                color=BLUE,
                label=measure,
                linestyle="",
            )
        axis.set_yticks(range(len(names)), [f"{kind:.30}  {types[kind]['entities']:,}" for kind in names])
        axis.set(xlim=(0, 1.02), title="F1 by type, with the number of entities")
        axis.invert_yaxis()
        axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def counted(predictions: list[list[str]], truth: list[list[str]]) -> tuple[list[str], np.ndarray]:
    """Returns the types, the commonest first and `O` at the end, and how many words of the type of the row are taken for that
    of the column.

    Types beyond the first ones are left out.
    """
    pairs = collections.Counter(
        (kind_of(right), kind_of(predicted))
        for row in zip(truth, predictions, strict=True)
        for right, predicted in zip(*row, strict=True)
    )
    total = collections.Counter()
    for (right, predicted), count in pairs.items():
        total[right] += count
        total[predicted] += 0
    names = [kind for kind, _ in total.most_common() if kind != OUTSIDE][:MOST] + [OUTSIDE] * (OUTSIDE in total)
    return names, np.array([[pairs[right, predicted] for predicted in names] for right in names])


def kind_of(tag: str) -> str:
    """Returns the type that a tag names; of tags that are none of spans the tag."""
    return tag.partition("-")[2] if tag != OUTSIDE and are_spans([tag]) else tag


def confusions(predictions: list[list[str]], truth: list[list[str]]):
    """Returns a map of words: rows are the right types, columns those that were said; shades are shares of a row."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names, table = counted(predictions, truth)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    with rc_context({"text.parse_math": False, "font.size": 8}):
        side = 1.6 + 0.5 * max(2, len(names))
        figure = Figure(figsize=(side + 0.6, side), layout="constrained")
        axis = figure.subplots()
        axis.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        for row, column in np.ndindex(*table.shape):
            if table[row, column]:
                colour = "white" if shares[row, column] > 0.6 else "black"
                axis.text(column, row, f"{table[row, column]:,}", ha="center", va="center", color=colour, fontsize=6)
        shown = [f"{kind:.12}" for kind in names]
        axis.set_xticks(range(len(names)), shown, rotation=90)
        axis.set_yticks(range(len(names)), shown)
        axis.set(xlabel="predicted", ylabel="true", title="words by type")
    return figure
