"""Curves over the steps of a run, as SVG that stands inside of a page."""

import dataclasses
import html
import io
import re
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

COLOURS = ("#1450c8", "#d1495b", "#2a9d5c", "#e08e1b", "#7b4fb5", "#1b9aaa", "#8a5a44", "#d65db1", "#6a7b12", "#555555")
DASHES, MARKS = ("--", ":", "-."), ("┅", "┈", "╍")
MOST_POINTS = 400  # of a curve; of longer ones the means of neighbours are drawn
SMOOTHED_FROM, WINDOW = 40, 20  # points; the part of a curve, one in so many, over which means are taken


@dataclasses.dataclass(frozen=True)
class Curve:
    """One line of a chart.

    Attributes:
        label: for the legend.
        steps, values: its points, of equal number; values that are not finite are gaps.
        dots: marks its points, as for evaluations.
        noisy: of many points their running mean is drawn, before the points themselves in pale.
    """

    label: str
    steps: Sequence[float]
    values: Sequence[float]
    colour: str = COLOURS[0]
    dots: bool = False
    noisy: bool = False


@dataclasses.dataclass(frozen=True)
class Chart:
    """Curves with one pair of axes.

    Attributes:
        levels: values that are drawn as broken lines all along, by name.
        logarithmic: of the values; those that are not positive are gaps.
        from_zero: whether the axis of the values begins at 0.
    """

    title: str
    curves: Sequence[Curve]
    levels: Mapping[str, float] = dataclasses.field(default_factory=dict)
    logarithmic: bool = False
    from_zero: bool = False


def grid(charts: Sequence[Chart]) -> str:
    """Returns HTML of several charts side by side, each with its title and legend."""
    return f"<div class=charts>{''.join(map(_figure, charts))}</div>"


def _figure(chart: Chart) -> str:
    keys = {(curve.label, curve.colour, "●" if curve.dots else "━"): None for curve in chart.curves if curve.label}
    keys |= {(label, "#777", mark): None for label, mark in zip(chart.levels, MARKS, strict=False)}
    legend = " ".join(
        f"<span><b style='color:{colour}'>{mark}</b> {html.escape(label)}</span>" for label, colour, mark in keys
    )
    title = html.escape(chart.title)
    return f"<figure><figcaption>{title}</figcaption>{as_svg(draw([chart]))}<div class=legend>{legend}</div></figure>"


def draw(charts: Sequence[Chart], titles: bool = False):
    """Returns a figure of matplotlib with the charts in a row, and, where no page does so, titles and legends."""
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
    from matplotlib.ticker import NullFormatter

    for curve in chart.curves:
        steps, values = thin_out(curve.steps, curve.values)
        if chart.logarithmic:
            values = np.where(values > 0, values, np.nan)
        if curve.dots:
            axis.plot(steps, values, "o-", color=curve.colour, label=curve.label, markersize=3, linewidth=1.2)
        elif curve.noisy and len(values) >= SMOOTHED_FROM:
            axis.plot(steps, values, color=curve.colour, alpha=0.25, linewidth=0.8)
            axis.plot(steps, smooth(values), color=curve.colour, label=curve.label, linewidth=1.4)
        else:
            axis.plot(steps, values, color=curve.colour, label=curve.label, linewidth=1.4)
    for (label, level), dashes in zip(chart.levels.items(), DASHES, strict=False):
        axis.axhline(level, linestyle=dashes, color="#777", linewidth=1, label=label)
    if chart.logarithmic:
        axis.set_yscale("log")
        low, high = axis.get_ylim()
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(_between_powers if high < 30 * low else NullFormatter())
    if chart.from_zero:
        axis.set_ylim(0, axis.get_ylim()[1] * 1.05)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def _between_powers(value: float, place) -> str:
    """Returns labels of a logarithmic axis between powers of ten: 2, 3 and 5."""
    text = f"{value:g}"
    return text if text.strip("0.") in ("2", "3", "5") else ""


def thin_out(steps: Sequence[float], values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the points of a curve, or the means of runs of neighbours where there are very many."""
    steps, values = np.asarray(steps, float), np.asarray(values, float)
    values = np.where(np.isfinite(values), values, np.nan)
    width = -(-len(steps) // MOST_POINTS)
    if width <= 1:
        return steps, values
    cuts = range(width, len(steps), width)
    ends = np.array([part[-1] for part in np.split(steps, cuts)])
    return ends, np.array([part.mean() for part in np.split(values, cuts)])


def smooth(values: np.ndarray) -> np.ndarray:
    """Returns the mean around each point, over a twentieth of the curve; gaps count for nothing."""
    kernel = np.ones(2 * (len(values) // (2 * WINDOW)) + 1)
    there = np.isfinite(values)
    sums = np.convolve(np.where(there, values, 0.0), kernel, "same")
    counts = np.convolve(there.astype(float), kernel, "same")
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def as_svg(figure) -> str:
    """Returns a figure as SVG for use inside of HTML: text stays text, and nothing refers to the outside."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # which the font of the reader has, such as Chinese
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)  # HTML knows them, and a page without addresses loads nothing
