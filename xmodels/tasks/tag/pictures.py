"""Pictures of a tagger's answers: F1 of each type, and which type words are taken for."""

import collections

import numpy as np

from xmodels.tasks.base import pictures
from xmodels.tasks.tag.settings import OUTSIDE, are_spans

LIGHT = "#9db8ee"
MOST = 25  # types that are drawn, the commonest ones


def draw(folder: str, predictions: list[list[str]], truth: list[list[str]], found: dict) -> list[str]:
    """Writes the pictures into a folder; returns their paths.

    Args:
        found: as `score.scores` returns it.
    """
    names, table = count_types(predictions, truth)
    words = pictures.confusions(pictures.shorten_names(names), table, "words by type")
    return pictures.write(folder, {"types": by_type(found["types"]), "confusions": words})


def by_type(types: dict[str, dict]):
    """Bars of F1, with precision and recall as marks."""
    from matplotlib import rc_context

    names = sorted(types, key=lambda kind: -types[kind]["entities"])[:MOST]
    with rc_context({"text.parse_math": False}):
        figure, axis = pictures.new_figure(6.4, 1.2 + 0.3 * max(1, len(names)))
        axis.barh(range(len(names)), [types[kind]["f1"] for kind in names], color=LIGHT, label="F1")
        for measure, mark in (("precision", "|"), ("recall", "x")):
            axis.plot(
                [types[kind][measure] for kind in names],
                range(len(names)),
                mark,
                color=pictures.BLUE,
                label=measure,
                linestyle="",
            )
        axis.set_yticks(range(len(names)), [f"{kind:.30}  {types[kind]['entities']:,}" for kind in names])
        axis.set(xlim=(0, 1.02), title="F1 by type, with the number of entities")
        axis.invert_yaxis()
        axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def count_types(predictions: list[list[str]], truth: list[list[str]]) -> tuple[list[str], np.ndarray]:
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
