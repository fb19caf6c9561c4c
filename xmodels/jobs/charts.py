"""Curves over the steps of a run, as SVG that stands inside of a page."""

import dataclasses
import html
import io
import re
from collections.abc import Sequence

import numpy as np

COLOURS = ("#1450c8", "#d1495b", "#2a9d5c", "#e08e1b", "#7b4fb5", "#1b9aaa", "#8a5a44", "#d65db1", "#6a7b12", "#555555")
MOST_POINTS = 400  # of a curve; of longer ones the means of neighbours are drawn
SMOOTHED_FROM, SMOOTHING = 40, 0.9  # points; share of the mean so far in an exponential mean


@dataclasses.dataclass(frozen=True)
class Curve:
    """One line of a chart.

    Attributes:
        label: for the legend.
        steps, values: its points, of equal number; values that are not finite are gaps.
        dots: marks its points and does not smooth it, as for evaluations.
    """

    label: str
    steps: Sequence[float]
    values: Sequence[float]
    colour: str = COLOURS[0]
    dots: bool = False


@dataclasses.dataclass(frozen=True)
class Chart:
    """Curves with one pair of axes.

    Attributes:
        level: a value that is drawn as a dashed line all along, under the name `level_label`.
        logarithmic: of the values; those that are not positive are gaps.
        from_zero: whether the axis of the values begins at 0.
    """

    title: str
    curves: Sequence[Curve]
    level: float | None = None
    level_label: str = ""
    logarithmic: bool = False
    from_zero: bool = False


def grid(charts: Sequence[Chart]) -> str:
    """HTML of several charts side by side, each with its title and legend."""
    return f"<div class=charts>{''.join(map(_figure, charts))}</div>"


def _figure(chart: Chart) -> str:
    keys = {(curve.label, curve.colour, "●" if curve.dots else "━"): None for curve in chart.curves if curve.label}
    if chart.level is not None and chart.level_label:
        keys[chart.level_label, "#777", "┅"] = None
    legend = "".join(
        f"<span><b style='color:{colour}'>{mark}</b> {html.escape(label)}</span>" for label, colour, mark in keys
    )
    title = html.escape(chart.title)
    return f"<figure><figcaption>{title}</figcaption>{as_svg(draw([chart]))}<div class=legend>{legend}</div></figure>"


def draw(charts: Sequence[Chart], titles: bool = False):
    """A figure of matplotlib with the charts in a row, and, where no page does so, titles and legends."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"text.parse_math": False, "font.size": 9}):
        figure = Figure(figsize=(4.8 * len(charts), 4.0 if titles else 2.7))
        for axis, chart in zip(figure.subplots(1, len(charts), squeeze=False)[0], charts, strict=True):
            _draw(axis, chart)
            if titles:
                axis.set(title=chart.title, xlabel="step")
                axis.legend()
        if titles:
            figure.tight_layout()
        else:
            figure.subplots_adjust(left=0.15, right=0.97, bottom=0.12, top=0.97)
        return figure


def _draw(axis, chart: Chart) -> None:
    for curve in chart.curves:
        steps, values = thinned(curve.steps, curve.values)
        if chart.logarithmic:
            values = np.where(values > 0, values, np.nan)
        if curve.dots:
            axis.plot(steps, values, "o-", color=curve.colour, label=curve.label, markersize=3, linewidth=1.2)
        elif len(values) >= SMOOTHED_FROM:
            axis.plot(steps, values, color=curve.colour, alpha=0.25, linewidth=0.8)
            axis.plot(steps, smoothed(values), color=curve.colour, label=curve.label, linewidth=1.4)
        else:
            axis.plot(steps, values, color=curve.colour, label=curve.label, linewidth=1.4)
    if chart.level is not None:
        axis.axhline(chart.level, linestyle="--", color="#777", linewidth=1, label=chart.level_label)
    if chart.logarithmic:
        axis.set_yscale("log")
    if chart.from_zero:
        axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def thinned(steps: Sequence[float], values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The points of a curve, or the means of runs of neighbours where there are very many."""
    steps, values = np.asarray(steps, float), np.asarray(values, float)
    values = np.where(np.isfinite(values), values, np.nan)
    width = -(-len(steps) // MOST_POINTS)
    if width <= 1:
        return steps, values
    cuts = range(width, len(steps), width)
    ends = np.array([part[-1] for part in np.split(steps, cuts)])
    return ends, np.array([part.mean() for part in np.split(values, cuts)])


def smoothed(values: np.ndarray) -> np.ndarray:
    """The exponential mean up to each point, without the bias of its start; a gap adds nothing."""
    total = weight = 0.0
    means = []
    for value in values:
        if np.isfinite(value):
            total, weight = SMOOTHING * total + (1 - SMOOTHING) * value, SMOOTHING * weight + 1 - SMOOTHING
        means.append(total / weight if weight else np.nan)
    return np.array(means)


def as_svg(figure) -> str:
    """A figure as SVG for use inside of HTML: text stays text, and nothing refers to the outside."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)  # HTML knows them, and a page without addresses loads nothing
