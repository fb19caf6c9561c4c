"""The pictures of a comparison: scores of all arms side by side, and how far each objective came."""

import html
import math

from xmodels.comparison.budget import UNITS
from xmodels.comparison.findings import Findings, Objective
from xmodels.comparison.plan import Plan
from xmodels.runs.charts import COLOURS, Chart, Curve, as_svg, grid

ROW, TOP, BOTTOM = 0.26, 0.35, 0.75  # inches
LINES = {"majority": ("--", "#999"), "bag_of_words": (":", "#444")}  # drawn all along, behind the other arms
LINE_NAMES = {"majority": "always the most frequent label", "bag_of_words": "bag of words"}


def scores(plan: Plan, findings: Findings) -> str:
    """Returns HTML of a panel for each task: a row for each arm, its seeds as small points, the mean with its standard
    deviation."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    tasks = [task for task in plan.tasks if any(name == task for _, name in findings.scores)]
    arms = [arm.name for arm in findings.arms if any((arm.name, task) in findings.scores for task in tasks)]
    if not arms:
        return ""
    labels = 0.085 * max(map(len, arms)) + 0.15  # inches that the names of the arms take
    width, height = labels + 3.4 * len(tasks), TOP + ROW * len(arms) + BOTTOM
    with rc_context({"text.parse_math": False, "font.size": 9}):
        figure = Figure(figsize=(width, height))
        panels = figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
        figure.subplots_adjust(
            left=labels / width, right=1 - 0.15 / width, bottom=BOTTOM / height, top=1 - TOP / height, wspace=0.08
        )
        for panel, task in zip(panels, tasks, strict=True):
            _panel(panel, task, arms, findings)
        panels[0].set_yticks(range(len(arms)), arms)
        panels[0].set_ylim(len(arms) - 0.4, -0.6)  # the first arm on top
    key = [f"<span><b style='color:{COLOURS[0]}'>●</b> mean over seeds, with standard deviation</span>"]
    key.append("<span><b style='color:#8fa8dd'>●</b> one seed</span>")
    drawn = [name for name in LINES if name in arms]
    key += [
        f"<span><b style='color:{LINES[n][1]}'>{'┅' if n == 'majority' else '┈'}</b> {LINE_NAMES[n]}</span>"
        for n in drawn
    ]
    return f"<figure style='max-width:{width:.1f}in'>{as_svg(figure)}<div class=legend>{' '.join(key)}</div></figure>"


def _panel(axis, task: str, arms: list[str], findings: Findings) -> None:
    for name, (dashes, colour) in LINES.items():
        if (name, task) in findings.scores:
            axis.axvline(100 * findings.scores[name, task].summary[0], linestyle=dashes, color=colour, linewidth=1)
    for row, arm in enumerate(arms):
        if (arm, task) not in findings.scores:
            continue
        score = findings.scores[arm, task]
        mean, spread = score.summary
        if len(score.accuracies) > 1:
            axis.plot(
                [100 * a for a in score.accuracies],
                [row] * len(score.accuracies),
                "o",
                color="#8fa8dd",
                markersize=3.5,
                zorder=3,
            )
        axis.errorbar(
            100 * mean, row, xerr=None if spread is None else 100 * spread, fmt="o", color=COLOURS[0], markersize=5, capsize=2,
            linewidth=1.2,
        )  # fmt: skip
    axis.set_title(task, fontsize=9)
    axis.set_xlabel("accuracy on the test file, %")
    axis.grid(axis="both", alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="y", length=0)


def objectives(plan: Plan, findings: Findings) -> str:
    """Returns HTML of a chart for each system: its own measure on held-out text against what it cost."""
    charts = [_chart(plan, findings, name, found) for name, found in findings.objectives.items() if found.curve]
    return grid(charts) if charts else ""


def _chart(plan: Plan, findings: Findings, name: str, found: Objective) -> Chart:
    kind = plan.budget.kind
    one = findings.costs[name].step.of(kind)
    scale, unit = 1.0, f"{UNITS[kind][0]}"
    if kind in ("flops", "tokens"):
        power = 3 * int(math.log10(max(1.0, one * found.curve[-1][0])) // 3)
        scale, unit = 10.0**power, f"{UNITS[kind][0]}" if power == 0 else f"1e{power} {UNITS[kind][0]}"
    costs = [step * one / scale for step, _, _ in found.curve]
    if not found.accuracies:
        curve = Curve("held-out loss", costs, [loss for _, loss, _ in found.curve], dots=True)
        return Chart(f"{name}: loss against {unit}", [curve])
    curve = Curve("held-out", costs, [100 * accuracy for _, _, accuracy in found.curve], dots=True)
    levels = {label: 100 * share for label, share in found.baselines.levels.items()}
    return Chart(f"{name}: {found.measure.replace('_', ' ')}, %, against {unit}", [curve], levels)


def legend(text: str) -> str:
    """Returns a line below a table."""
    return f"<p class=legend>{html.escape(text)}</p>"
